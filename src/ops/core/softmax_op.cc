#include "ops/core/softmax_op.h"

namespace parallax::ops {
namespace {

constexpr int kSingleAxisSince = 13;

int64_t AxisAttribute(const NodeContext& c) {
  return c.Int("axis", c.opset() >= kSingleAxisSince ? -1 : 1);
}

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) return {};
  const int64_t axis = AxisAttribute(c);
  if (c.opset() >= kSingleAxisSince) {
    PX_RETURN_IF_ERROR(NormalizeAxis(axis, c.rank(0)));
  } else if (axis < -c.rank(0) || axis > c.rank(0) || (axis == c.rank(0) && axis != 1)) {
    // The split after the last axis is only legal as the default's meaning on vectors.
    return Invalid("axis {} is outside a tensor of rank {}", axis, c.rank(0));
  }
  return c.SetSameAsInput(0, 0);
}

Cost Estimate(const CostContext& c) {
  return {.op_class = OpClass::kNormalize,
          .flops = 5.0 * static_cast<double>(c.input(0).elements())};
}

}  // namespace

AxisView SoftmaxView(const NodeContext& c, const Shape& shape) {
  int64_t axis = AxisAttribute(c);
  if (axis < 0) axis += shape.rank();
  const int at = static_cast<int>(axis);
  if (c.opset() >= kSingleAxisSince) return ViewAround(shape, at);
  return {shape.Elements(0, at), shape.Elements(at, shape.rank()), 1};
}

Result<std::unique_ptr<Kernel>> BindSoftmax(BindContext& c, kernels::SoftmaxKind kind) {
  const AxisView v = SoftmaxView(c, c.input(0));
  const DType dtype = c.input_type(0);
  return MakeKernel("softmax", [=](const KernelArgs& a) {
    kernels::Softmax(kind, dtype, v.outer, v.axis, v.inner, a.raw_in(0), a.raw_out(0), a.team());
  });
}

OpDef SoftmaxDef(std::string_view name, Result<std::unique_ptr<Kernel>> (*bind)(BindContext&)) {
  OpDef def;
  def.name = name;
  def.inputs = {{"input", kFloats, 'T'}};
  def.outputs = {{"output", kFloats, 'T'}};
  def.attributes = {{.name = "axis"}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = bind;
  return def;
}

}  // namespace parallax::ops
