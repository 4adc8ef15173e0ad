// parallax::FusedConv: Conv with an epilogue, channels first or last. Made by passes, f32 only.
//
// Inputs X, W [out, in/group, kernel...], optional bias, optional residual of the output's shape.
// Attributes of Conv and of an epilogue (epilogue_op.h), and channels_last: X, residual and output
// are [batch, spatial..., channels]; with planar_input, X is not.
//
// Sources: with source_first and source_channels, which have one entry for X and one for each input
// after the residual, the convolution's input is that many channels of each, from that one on, side
// by side.
#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "ops/core/conv_op.h"
#include "ops/core/conv_sources.h"
#include "ops/core/dims.h"
#include "ops/core/epilogue_op.h"
#include "ops/core/packed_weights.h"

namespace parallax::ops {
namespace {

kernels::ConvLayout LayoutOf(const NodeContext& c) {
  if (c.Int("channels_last", 0) == 0) return kernels::ConvLayout::kChannelsFirst;
  return c.Int("planar_input", 0) != 0 ? kernels::ConvLayout::kFirstToLast
                                       : kernels::ConvLayout::kChannelsLast;
}

constexpr int kFirstFurther = static_cast<int>(kFirstFurtherSource);
static_assert(kMaxSources == kernels::kMaxConvSources);

struct Sources {
  std::vector<int64_t> first, channels;
  int64_t all_channels = 0;
  int InputOf(size_t source) const {
    return source == 0 ? 0 : kFirstFurther + static_cast<int>(source) - 1;
  }
};

// Empty where the attributes are left out.
Result<Sources> ReadSources(const NodeContext& c) {
  Sources s;
  if (const std::vector<int64_t>* first = c.Ints("source_first")) s.first = *first;
  if (const std::vector<int64_t>* channels = c.Ints("source_channels")) s.channels = *channels;
  const size_t inputs = 1 + static_cast<size_t>(std::max(0, c.num_inputs() - kFirstFurther));
  if (s.first.size() != s.channels.size())
    return Invalid("source_first and source_channels differ");
  if (s.channels.empty() && inputs == 1) return s;
  // Here and not only where a kernel is sought: a pass may have set channels_last by then.
  if (LayoutOf(c) != kernels::ConvLayout::kChannelsLast) {
    return Invalid("sources are of channels last");
  }
  if (s.channels.size() != inputs || inputs > kMaxSources) {
    return Invalid("has {} sources for {} inputs", s.channels.size(), inputs);
  }
  for (size_t i = 0; i < inputs; ++i) {
    const std::optional<int64_t> all = CheckedAdd(s.all_channels, s.channels[i]);
    if (s.channels[i] < 1 || s.first[i] < 0 || !all || !c.has_input(s.InputOf(i))) {
      return Invalid("source {} begins at channel {} and has {}", i, s.first[i], s.channels[i]);
    }
    s.all_channels = *all;
  }
  return s;
}

Result<void> Infer(InferContext& c) {
  PX_ASSIGN_OR_RETURN(const Sources sources, ReadSources(c));
  std::optional<Dim> channels;
  if (!sources.channels.empty()) channels = Dim(sources.all_channels);
  PX_RETURN_IF_ERROR(InferConv(c, LayoutOf(c), channels));
  const Result<kernels::Epilogue> epilogue = ReadEpilogue(c);
  if (!epilogue.ok()) return epilogue.error();
  return {};
}

Result<void> SetSources(const BindContext& c, const Sources& sources, kernels::ConvShape* shape) {
  shape->source_count = static_cast<int>(sources.channels.size());
  if (shape->source_count == 0) return {};
  shape->in_channels = sources.all_channels;
  for (size_t i = 0; i < sources.channels.size(); ++i) {
    const Shape& x = c.input(sources.InputOf(i));
    const int64_t pixel = x.rank() > 0 ? x[x.rank() - 1] : 0;
    Shape as_first = x;
    if (x.rank() == c.input(0).rank()) as_first[x.rank() - 1] = c.input(0)[x.rank() - 1];
    if (!(as_first == c.input(0)) || sources.channels[i] > pixel - sources.first[i]) {
      return Invalid("source {} is {} channels from {} on of {}", i, sources.channels[i],
                     sources.first[i], x.ToString());
    }
    shape->sources[i] = {sources.channels[i], sources.first[i], pixel};
  }
  if (!kernels::SupportsSources(*shape)) return Invalid("no kernel reads this shape from sources");
  return {};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::ConvShape shape, ConvShapeOf(c, LayoutOf(c)));
  PX_ASSIGN_OR_RETURN(const Sources sources, ReadSources(c));
  PX_RETURN_IF_ERROR(SetSources(c, sources, &shape));
  PX_ASSIGN_OR_RETURN(const kernels::Epilogue epilogue, ReadEpilogue(c));
  if (shape.layout != kernels::ConvLayout::kChannelsFirst &&
      !kernels::SupportsChannelsLast(shape)) {
    return Invalid("no kernel convolves this shape with channels last");
  }
  if (c.has_input(3) && !(c.input(3) == c.output(0))) {
    return Invalid("the residual is {}, the output {}", c.input(3).ToString(),
                   c.output(0).ToString());
  }
  const kernels::ConvPlan plan = kernels::PlanConv(shape, {.precise = c.precise()});
  return BindPackedWeights(c, plan, shape.groups, kernels::ConvWorkspaceBytes(plan, c.team_size()),
                           kernels::PackConvWeights,
                           [epilogue](const kernels::ConvPlan& p, const KernelArgs& a,
                                      const void* packed, void* workspace) {
                             kernels::Epilogue e = epilogue;
                             e.residual = a.in<float>(3);
                             const float* inputs[kernels::kMaxConvSources] = {a.in<float>(0)};
                             for (int i = 1; i < p.shape.source_count; ++i)
                               inputs[i] = a.in<float>(kFirstFurther + i - 1);
                             kernels::Conv(p, inputs, packed, a.in<float>(2), e, a.out<float>(0),
                                           workspace, a.team());
                           });
}

}  // namespace

OpDef op_fused_conv() {
  OpDef def;
  def.name = "FusedConv";
  def.domain = "parallax";
  def.inputs = {{"X", Bit(DType::kF32), 'T'},
                {"W", Bit(DType::kF32), 'T'},
                {"B", Bit(DType::kF32), 'T', Arity::kOptional},
                {"R", Bit(DType::kF32), 'T', Arity::kOptional},
                {"X_further", Bit(DType::kF32), 'T', Arity::kVariadic}};
  def.outputs = {{"Y", Bit(DType::kF32), 'T'}};
  def.attributes = ConvAttributes();
  for (const AttributeDef& a : EpilogueAttributes()) def.attributes.push_back(a);
  def.attributes.push_back({.name = "channels_last"});
  def.attributes.push_back({.name = "planar_input"});
  def.attributes.push_back({.name = "source_first", .type = AttributeType::kInts});
  def.attributes.push_back({.name = "source_channels", .type = AttributeType::kInts});
  def.infer = Infer;
  def.cost = ConvCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
