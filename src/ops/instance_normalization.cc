// InstanceNormalization: each channel of each image by its own mean and variance, then scale and
// bias. Since opset 6.
#include "kernels/norm/channel_norm.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) >= 0 && c.rank(0) < 3) {
    return Invalid("the input should have rank 3 or more, has {}", c.rank(0));
  }
  PX_RETURN_IF_ERROR(CheckChannelParam(c, 1));
  PX_RETURN_IF_ERROR(CheckChannelParam(c, 2));
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& shape = c.input(0);
  const int64_t batch = shape[0], channels = shape[1], spatial = shape.Elements(2, shape.rank());
  const float epsilon = c.Float("epsilon", 1e-5f);
  const DType dtype = c.input_type(0);
  return MakeKernel("group_norm", [=](const KernelArgs& a) {
    kernels::GroupNorm(dtype, batch, channels, spatial, channels, a.raw_in(0), a.raw_in(1),
                       a.raw_in(2), epsilon, a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_instance_normalization() {
  OpDef def;
  def.name = "InstanceNormalization";
  def.inputs = {{"input", kFloats, 'T'}, {"scale", kFloats, 'T'}, {"B", kFloats, 'T'}};
  def.outputs = {{"output", kFloats, 'T'}};
  def.attributes = {{.name = "epsilon", .type = AttributeType::kFloat}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = NormCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
