// ConvTranspose: N-d transposed convolution, NC* layout, groups, dilations, output_padding,
// output_shape, every auto_pad. Since opset 1. f32 through GEMM; f64, f16 and bf16 portable.
#include "kernels/conv/conv_transpose.h"
#include "base/checked.h"
#include "kernels/conv/generic_conv.h"
#include "ops/core/bind_context.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"
#include "ops/core/packed_weights.h"
#include "ops/core/window.h"

namespace parallax::ops {
namespace {

// Output extent and leading pad of one dimension.
struct Extent {
  int64_t out = 0, pad_begin = 0;
};

Result<Extent> Resolve(const NodeContext& c, const Window& w, int i, int64_t in) {
  const size_t d = static_cast<size_t>(i);
  const std::vector<int64_t> extra = c.IntsOr("output_padding", w.kernel.size(), 0);
  if (extra.size() != w.kernel.size()) {
    return Invalid("output_padding has {} values, should have {}", extra.size(), w.kernel.size());
  }
  if (extra[d] < 0 || extra[d] >= std::max(w.strides[d], w.dilations[d])) {
    return Invalid("output_padding {} should be below the stride or the dilation", extra[d]);
  }
  // All that the kernel touches, before anything is cut off.
  std::optional<int64_t> touched = CheckedMul(w.strides[d], std::max<int64_t>(in, 1));
  if (touched) touched = CheckedAdd(*touched - w.strides[d], w.Effective(i) + extra[d]);
  if (!touched || *touched > int64_t{1} << 56) {
    return Invalid("dimension {}: extent {} with stride {} and a kernel of {} is too large", i, in,
                   w.strides[d], w.Effective(i));
  }
  const int64_t full = in == 0 ? 0 : *touched;
  const bool same = w.auto_pad == AutoPad::kSameUpper || w.auto_pad == AutoPad::kSameLower;
  int64_t wanted = -1;
  if (const std::vector<int64_t>* shape = c.Ints("output_shape")) {
    // Old exporters give batch and channels too.
    const size_t skip = shape->size() == w.kernel.size() + 2 ? 2 : 0;
    if (shape->size() - skip != w.kernel.size()) {
      return Invalid("output_shape has {} values, should have {}", shape->size(), w.kernel.size());
    }
    wanted = (*shape)[d + skip];
    if (wanted < 0 || wanted >= int64_t{1} << 31) return Invalid("output_shape has {}", wanted);
  } else if (same) {
    wanted = in * w.strides[d];
  }
  if (wanted < 0) {
    const Pads pads = PadsOf(w, i, in);
    const int64_t out = full - pads.begin - pads.end;
    if (out < 0) return Invalid("dimension {} has a negative output extent {}", i, out);
    return Extent{out, pads.begin};
  }
  const int64_t total = std::max<int64_t>(0, full - wanted);
  const int64_t less = total / 2;
  return Extent{wanted, w.auto_pad == AutoPad::kSameUpper ? less : total - less};
}

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
  PX_RETURN_IF_ERROR(MergeDim(x[1], w[0], "input channels and weights"));
  if (w[0].known() && w[0].extent % groups != 0) {
    return Invalid("{} channels do not divide into {} groups", w[0].extent, groups);
  }
  PX_ASSIGN_OR_RETURN(Dim channels, MulDims(w[1], Dim(groups)));
  if (c.has_input(2) && c.rank(2) >= 0) {
    if (c.rank(2) != 1) return Invalid("the bias should be a vector, has rank {}", c.rank(2));
    PX_RETURN_IF_ERROR(MergeDim(c.dims(2)[0], channels, "bias and output channels"));
  }
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < w.size(); ++i) {
    if (!w[i].known()) return c.SetUnknownDims(0, c.rank(0));
    kernel.push_back(w[i].extent);
  }
  PX_ASSIGN_OR_RETURN(Window window, ReadWindow(c, c.rank(0) - 2, kernel));
  Dims out = {x[0], channels};
  for (int i = 0; i < window.rank; ++i) {
    const Dim& in = x[static_cast<size_t>(2 + i)];
    if (!in.known()) {
      out.emplace_back();
      continue;
    }
    PX_ASSIGN_OR_RETURN(Extent extent, Resolve(c, window, i, in.extent));
    out.emplace_back(extent.out);
  }
  return c.SetDims(0, std::move(out));
}

Cost Estimate(const CostContext& c) {
  const Shape& w = c.input(1);
  return {.op_class = OpClass::kConv,
          .flops = 2.0 * static_cast<double>(c.input(0).elements()) *
                   static_cast<double>(w.Elements(1, w.rank()))};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& x = c.input(0);
  const Shape& w = c.input(1);
  PX_ASSIGN_OR_RETURN(Window window, ReadWindow(c, x.rank() - 2, w.dims().subspan(2)));
  kernels::ConvShape shape;
  shape.batch = x[0];
  shape.groups = c.Int("group", 1);
  shape.in_channels = x[1];
  shape.out_channels = w[1] * shape.groups;
  FillSpatial(window, x, c.output(0), &shape);
  for (int i = 0; i < shape.rank; ++i) {
    PX_ASSIGN_OR_RETURN(Extent extent, Resolve(c, window, i, shape.in[i]));
    shape.pads_begin[i] = extent.pad_begin;
  }
  const DType dtype = c.input_type(0);
  if (dtype != DType::kF32) {
    return MakeKernel("conv_transpose_portable", [=](const KernelArgs& a) {
      DispatchType(dtype, [&]<class T>() {
        if constexpr (IsFloat(kDTypeOf<T>) && !std::is_same_v<T, float>) {
          using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
          kernels::GenericConvTranspose<Acc>(shape, a.in<T>(0), a.in<T>(1), a.in<T>(2), a.out<T>(0),
                                             a.team());
        }
      });
    });
  }
  const kernels::ConvTransposePlan plan = kernels::PlanConvTranspose(shape);
  return BindPackedWeights(c, plan, shape.groups,
                           kernels::ConvTransposeWorkspaceBytes(plan, c.team_size()),
                           kernels::PackConvTransposeWeights,
                           [](const kernels::ConvTransposePlan& p, const KernelArgs& a,
                              const void* packed, void* workspace) {
                             kernels::ConvTranspose(p, a.in<float>(0), packed, a.in<float>(2), {},
                                                    a.out<float>(0), workspace, a.team());
                           });
}

}  // namespace

OpDef op_conv_transpose() {
  OpDef def;
  def.name = "ConvTranspose";
  def.inputs = {{"X", kFloats, 'T'}, {"W", kFloats, 'T'}, {"B", kFloats, 'T', Arity::kOptional}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = {{.name = "auto_pad", .type = AttributeType::kString},
                    {.name = "dilations", .type = AttributeType::kInts},
                    {.name = "group"},
                    {.name = "kernel_shape", .type = AttributeType::kInts},
                    {.name = "output_padding", .type = AttributeType::kInts},
                    {.name = "output_shape", .type = AttributeType::kInts},
                    {.name = "pads", .type = AttributeType::kInts},
                    {.name = "strides", .type = AttributeType::kInts}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
