// Conv: N-d convolution, NC* layout, groups, dilations, every auto_pad. Since opset 1. f32 on SIMD
// with weights packed once when constant; f64, and f16 and bf16 with sums in f32, through the
// portable kernel.
#include "kernels/conv/conv.h"
#include "kernels/conv/generic_conv.h"
#include "ops/core/bind_context.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"
#include "ops/core/packed_weights.h"
#include "ops/core/window.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const int64_t groups = c.Int("group", 1);
  if (groups < 1) return Invalid("group is {}", groups);
  const int rank = std::max(c.rank(0), c.rank(1));
  if (c.rank(0) < 0 || c.rank(1) < 0) return rank < 0 ? Result<void>() : c.SetUnknownDims(0, rank);
  const Dims& x = c.dims(0);
  const Dims& w = c.dims(1);
  if (x.size() < 3 || x.size() != w.size()) {
    return Invalid("input {} and weights {} should have one rank of 3 or more", DimsToString(x),
                   DimsToString(w));
  }
  PX_ASSIGN_OR_RETURN(Dim channels, MulDims(w[1], Dim(groups)));
  if (x[1].known() && channels.known() && x[1].extent != channels.extent) {
    return Invalid("input has {} channels, weights {} for each of {} groups", x[1].extent,
                   w[1].extent, groups);
  }
  if (w[0].known() && w[0].extent % groups != 0) {
    return Invalid("{} output channels do not divide into {} groups", w[0].extent, groups);
  }
  if (c.has_input(2) && c.rank(2) >= 0) {
    if (c.rank(2) != 1) return Invalid("the bias should be a vector, has rank {}", c.rank(2));
    PX_RETURN_IF_ERROR(MergeDim(c.dims(2)[0], w[0], "bias and output channels"));
  }
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < w.size(); ++i) {
    if (w[i].known()) kernel.push_back(w[i].extent);
  }
  if (kernel.size() != w.size() - 2) {
    kernel.clear();
    if (!c.has_attribute("kernel_shape")) return c.SetUnknownDims(0, c.rank(0));
  }
  PX_ASSIGN_OR_RETURN(Window window, ReadWindow(c, c.rank(0) - 2, kernel));
  Dims out = {x[0], w[0]};
  for (int i = 0; i < window.rank; ++i) {
    PX_ASSIGN_OR_RETURN(Dim d, OutputExtent(window, i, x[static_cast<size_t>(2 + i)],
                                            Rounding::kFloor, WindowFit::kOnce));
    out.push_back(d);
  }
  return c.SetDims(0, std::move(out));
}

Cost Estimate(const CostContext& c) {
  const Shape& w = c.input(1);
  return {.op_class = OpClass::kConv,
          .flops = 2.0 * static_cast<double>(c.output(0).elements()) *
                   static_cast<double>(w.Elements(1, w.rank()))};
}

Result<kernels::ConvShape> ShapeOf(const BindContext& c) {
  const Shape& x = c.input(0);
  const Shape& w = c.input(1);
  PX_ASSIGN_OR_RETURN(Window window, ReadWindow(c, x.rank() - 2, w.dims().subspan(2)));
  kernels::ConvShape s;
  s.batch = x[0];
  s.groups = c.Int("group", 1);
  s.in_channels = x[1];
  s.out_channels = w[0];
  FillSpatial(window, x, c.output(0), &s);
  for (int i = 0; i < s.rank; ++i) s.pads_begin[i] = PadsOf(window, i, s.in[i]).begin;
  return s;
}

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
  PX_ASSIGN_OR_RETURN(kernels::ConvShape shape, ShapeOf(c));
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
  def.attributes = {{.name = "auto_pad", .type = AttributeType::kString},
                    {.name = "dilations", .type = AttributeType::kInts},
                    {.name = "group"},
                    {.name = "kernel_shape", .type = AttributeType::kInts},
                    {.name = "pads", .type = AttributeType::kInts},
                    {.name = "strides", .type = AttributeType::kInts}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
