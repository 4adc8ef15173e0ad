// LRN: x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta. Since
// opset 1.
#include "kernels/norm/channel_norm.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.Int("size", 0) < 1) return Invalid("size is {}, should be 1 or more", c.Int("size", 0));
  if (c.rank(0) >= 0 && c.rank(0) < 2) {
    return Invalid("the input should have rank 2 or more, has {}", c.rank(0));
  }
  return c.SetSameAsInput(0, 0);
}

Cost Estimate(const CostContext& c) {
  return {.op_class = OpClass::kNormalize,
          .flops = (2.0 * static_cast<double>(c.Int("size", 1)) + 20) *
                   static_cast<double>(c.input(0).elements())};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& shape = c.input(0);
  const int64_t batch = shape[0], channels = shape[1], spatial = shape.Elements(2, shape.rank());
  const int64_t size = c.Int("size", 1);
  const float alpha = c.Float("alpha", 1e-4f), beta = c.Float("beta", 0.75f);
  const float bias = c.Float("bias", 1.0f);
  const DType dtype = c.input_type(0);
  return MakeKernel("lrn", [=](const KernelArgs& a) {
    kernels::Lrn(dtype, batch, channels, spatial, size, alpha, beta, bias, a.raw_in(0),
                 a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_lrn() {
  OpDef def;
  def.name = "LRN";
  def.inputs = {{"X", kFloats, 'T'}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat},
                    {.name = "beta", .type = AttributeType::kFloat},
                    {.name = "bias", .type = AttributeType::kFloat},
                    {.name = "size", .required = true}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
