// Conv: N-d convolution, NC* layout, groups, dilations, every auto_pad. Since opset 1. f32 on SIMD
// with weights packed once when constant; f64, and f16 and bf16 with sums in f32, through the
// portable kernel.
#include "kernels/conv/generic_conv.h"
#include "ops/core/conv_op.h"
#include "ops/core/packed_weights.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) { return InferConv(c, kernels::ConvLayout::kChannelsFirst); }

Result<std::unique_ptr<Kernel>> BindF32(BindContext& c, const kernels::ConvShape& shape) {
  const kernels::ConvPlan plan = kernels::PlanConv(shape);
  return BindPackedWeights(
      c, plan, shape.groups, kernels::ConvWorkspaceBytes(plan, c.team_size()),
      kernels::PackConvWeights,
      [](const kernels::ConvPlan& p, const KernelArgs& a, const void* packed, void* workspace) {
        kernels::Conv(p, a.in<float>(0), packed, a.in<float>(2), {}, a.out<float>(0), workspace,
                      a.team());
      });
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::ConvShape shape,
                      ConvShapeOf(c, kernels::ConvLayout::kChannelsFirst));
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) return BindF32(c, shape);
  return MakeKernel("conv_portable", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (IsFloat(kDTypeOf<T>) && !std::is_same_v<T, float>) {
        using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
        kernels::GenericConv<Acc>(shape, a.in<T>(0), a.in<T>(1), a.in<T>(2), a.out<T>(0), {},
                                  a.team());
      }
    });
  });
}

}  // namespace

OpDef op_conv() {
  OpDef def;
  def.name = "Conv";
  def.inputs = {{"X", kFloats, 'T'}, {"W", kFloats, 'T'}, {"B", kFloats, 'T', Arity::kOptional}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = ConvAttributes();
  def.infer = Infer;
  def.cost = ConvCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
