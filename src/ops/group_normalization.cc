// GroupNormalization: groups of channels of each image by their own mean and variance, then scale
// and bias. Since opset 18, where scale and bias have one value a group; from 21 on, one a channel.
#include <cstring>

#include "kernels/norm/channel_norm.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

constexpr int kPerChannelSince = 21;

Result<void> Infer(InferContext& c) {
  const int64_t groups = c.Int("num_groups", 1);
  if (groups < 1) return Invalid("num_groups is {}", groups);
  if (c.rank(0) < 0) return {};
  if (c.rank(0) < 3) return Invalid("the input should have rank 3 or more, has {}", c.rank(0));
  const Dim& channels = c.dims(0)[1];
  if (channels.known() && channels.extent % groups != 0) {
    return Invalid("{} channels do not divide into {} groups", channels.extent, groups);
  }
  for (int i : {1, 2}) {
    if (c.opset() >= kPerChannelSince) {
      PX_RETURN_IF_ERROR(CheckChannelParam(c, i));
    } else if (std::optional<Shape> s = c.type(i).shape(); s && !(*s == Shape{groups})) {
      return Invalid("input {} has shape {}, should be one value a group ({})", i, s->ToString(),
                     groups);
    }
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& shape = c.input(0);
  const int64_t batch = shape[0], channels = shape[1], spatial = shape.Elements(2, shape.rank());
  const int64_t groups = c.Int("num_groups", 1);
  const float epsilon = c.Float("epsilon", 1e-5f);
  const DType dtype = c.input_type(0);
  if (c.opset() >= kPerChannelSince) {
    return MakeKernel("group_norm", [=](const KernelArgs& a) {
      kernels::GroupNorm(dtype, batch, channels, spatial, groups, a.raw_in(0), a.raw_in(1),
                         a.raw_in(2), epsilon, a.raw_out(0), a.team());
    });
  }
  // One value a group becomes one a channel: first all scales, then all biases.
  const size_t size = SizeOf(dtype);
  const int64_t per_group = channels / groups;
  const size_t half = static_cast<size_t>(channels) * size;
  return MakeKernel(
      "group_norm",
      [=](const KernelArgs& a) {
        for (int i : {1, 2}) {
          std::byte* out = a.workspace() + static_cast<size_t>(i - 1) * half;
          for (int64_t k = 0; k < channels; ++k) {
            std::memcpy(out + static_cast<size_t>(k) * size,
                        a.in<std::byte>(i) + static_cast<size_t>(k / per_group) * size, size);
          }
        }
        kernels::GroupNorm(dtype, batch, channels, spatial, groups, a.raw_in(0), a.workspace(),
                           a.workspace() + half, epsilon, a.raw_out(0), a.team());
      },
      2 * half);
}

}  // namespace

OpDef op_group_normalization() {
  OpDef def;
  def.name = "GroupNormalization";
  def.since = 18;
  def.inputs = {{"X", kFloats, 'T'}, {"scale", kFloats, 'T'}, {"bias", kFloats, 'T'}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = {{.name = "num_groups", .required = true},
                    {.name = "epsilon", .type = AttributeType::kFloat},
                    {.name = "stash_type", .since = 21}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = NormCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
