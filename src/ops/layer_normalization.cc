// LayerNormalization: (x - mean) / sqrt(var + epsilon) * scale + bias over the axes from `axis` on.
// Optional outputs: mean and 1 / sqrt(var + epsilon), in f32 (f64 for f64). Since opset 17.
#include "kernels/norm/row_norm.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const DType stat = c.dtype(0) == DType::kF64 ? DType::kF64 : DType::kF32;
  c.SetDType(1, stat);
  c.SetDType(2, stat);
  if (c.Int("stash_type", 1) != 1) {
    return Invalid("stash_type is {}, should be 1 (statistics in f32)", c.Int("stash_type", 1));
  }
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), c.rank(0)));
  PX_RETURN_IF_ERROR(CheckTrailingParam(c, 1, axis));
  PX_RETURN_IF_ERROR(CheckTrailingParam(c, 2, axis));
  Dims reduced = c.dims(0);
  for (size_t i = static_cast<size_t>(axis); i < reduced.size(); ++i) reduced[i] = Dim(1);
  PX_RETURN_IF_ERROR(c.SetSameAsInput(0, 0));
  PX_RETURN_IF_ERROR(c.SetDims(1, reduced));
  return c.SetDims(2, std::move(reduced));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& shape = c.input(0);
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), shape.rank()));
  const int64_t rows = shape.Elements(0, axis), cols = shape.Elements(axis, shape.rank());
  const float epsilon = c.Float("epsilon", 1e-5f);
  const DType dtype = c.input_type(0);
  return MakeKernel("layer_norm", [=](const KernelArgs& a) {
    kernels::LayerNorm(dtype, rows, cols, a.raw_in(0), a.raw_in(1), a.raw_in(2), epsilon,
                       a.raw_out(0), a.raw_out(1), a.raw_out(2), a.team());
  });
}

}  // namespace

OpDef op_layer_normalization() {
  OpDef def;
  def.name = "LayerNormalization";
  def.since = 17;
  def.inputs = {
      {"X", kFloats, 'T'}, {"Scale", kFloats, 'T'}, {"B", kFloats, 'T', Arity::kOptional}};
  def.outputs = {{"Y", kFloats, 'T'},
                 {"Mean", kFloats, 0, Arity::kOptional},
                 {"InvStdDev", kFloats, 0, Arity::kOptional}};
  def.attributes = {
      {.name = "axis"}, {.name = "epsilon", .type = AttributeType::kFloat}, {.name = "stash_type"}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = NormCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
