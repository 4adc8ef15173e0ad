// RMSNormalization: x / sqrt(mean(x^2) + epsilon) * scale over the axes from `axis` on. Since
// opset 23. The scale has the extents from `axis` on; a scale of another type or shape is refused.
#include "kernels/norm/row_norm.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.dtype(1) != c.dtype(0)) {
    return MakeError(ErrorCode::kUnsupported, "scale is {} and X {}: should be the same",
                     Name(c.dtype(1)), Name(c.dtype(0)));
  }
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), c.rank(0)));
  PX_RETURN_IF_ERROR(CheckTrailingParam(c, 1, axis));
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& shape = c.input(0);
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), shape.rank()));
  const int64_t rows = shape.Elements(0, axis), cols = shape.Elements(axis, shape.rank());
  const float epsilon = c.Float("epsilon", 1e-5f);
  const DType dtype = c.input_type(0);
  return MakeKernel("rms_norm", [=](const KernelArgs& a) {
    kernels::RmsNorm(dtype, rows, cols, a.raw_in(0), a.raw_in(1), epsilon, a.raw_out(0), nullptr,
                     a.team());
  });
}

}  // namespace

OpDef op_rms_normalization() {
  OpDef def;
  def.name = "RMSNormalization";
  def.since = 23;
  def.inputs = {{"X", kFloats, 'T'}, {"scale", kFloats, 'V'}};
  def.outputs = {{"Y", kFloats, 'V'}};
  def.attributes = {
      {.name = "axis"}, {.name = "epsilon", .type = AttributeType::kFloat}, {.name = "stash_type"}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = NormCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
