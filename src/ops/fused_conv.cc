// parallax::FusedConv: Conv with an epilogue, channels first or last. Made by passes, f32 only.
//
// Inputs X, W [out, in/group, kernel...], optional bias, optional residual of the output's shape.
// Attributes of Conv and of an epilogue (epilogue_op.h), and channels_last: X, residual and output
// are [batch, spatial..., channels]; with planar_input, X is not.
#include "ops/core/conv_op.h"
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

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(InferConv(c, LayoutOf(c)));
  const Result<kernels::Epilogue> epilogue = ReadEpilogue(c);
  if (!epilogue.ok()) return epilogue.error();
  return {};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(const kernels::ConvShape shape, ConvShapeOf(c, LayoutOf(c)));
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
                             kernels::Conv(p, a.in<float>(0), packed, a.in<float>(2), e,
                                           a.out<float>(0), workspace, a.team());
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
                {"R", Bit(DType::kF32), 'T', Arity::kOptional}};
  def.outputs = {{"Y", Bit(DType::kF32), 'T'}};
  def.attributes = ConvAttributes();
  for (const AttributeDef& a : EpilogueAttributes()) def.attributes.push_back(a);
  def.attributes.push_back({.name = "channels_last"});
  def.attributes.push_back({.name = "planar_input"});
  def.infer = Infer;
  def.cost = ConvCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
