#include "ops/core/pool_op.h"

#include <algorithm>

#include "ops/core/dims.h"
#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

Rounding RoundingOf(const NodeContext& c) {
  return c.Int("ceil_mode", 0) != 0 ? Rounding::kCeil : Rounding::kFloor;
}

}  // namespace

Result<void> InferPool(InferContext& c, kernels::ConvLayout layout) {
  const bool last = layout == kernels::ConvLayout::kChannelsLast;
  const std::vector<int64_t>* kernel = c.Ints("kernel_shape");
  const int spatial = kernel == nullptr ? 0 : static_cast<int>(kernel->size());
  PX_ASSIGN_OR_RETURN(Window window, ReadWindow(c, spatial, {}));
  for (int i = 0; i < window.rank; ++i) {
    const size_t d = static_cast<size_t>(i);
    // A window could lie wholly in the padding otherwise.
    if (window.pads_begin[d] < 0 || window.pads_end[d] < 0 ||
        window.pads_begin[d] >= window.Effective(i) || window.pads_end[d] >= window.Effective(i)) {
      return Invalid("pads {} and {} of dimension {} should be 0 or more and below the kernel's {}",
                     window.pads_begin[d], window.pads_end[d], i, window.Effective(i));
    }
  }
  if (c.rank(0) < 0) {
    PX_RETURN_IF_ERROR(c.SetUnknownDims(1, spatial + 2));
    return c.SetUnknownDims(0, spatial + 2);
  }
  if (c.rank(0) != spatial + 2) {
    return Invalid("kernel_shape has {} values for an input of rank {}", spatial, c.rank(0));
  }
  const Dims x = last ? ChannelsFirst(c.dims(0)) : c.dims(0);
  Dims out = {x[0], x[1]};
  for (int i = 0; i < spatial; ++i) {
    PX_ASSIGN_OR_RETURN(Dim d, OutputExtent(window, i, x[static_cast<size_t>(2 + i)], RoundingOf(c),
                                            WindowFit::kFormula));
    out.push_back(d);
  }
  if (last) std::rotate(out.begin() + 1, out.begin() + 2, out.end());
  PX_RETURN_IF_ERROR(c.SetDims(1, out));
  return c.SetDims(0, std::move(out));
}

Result<void> InferPool(InferContext& c) {
  return InferPool(c, kernels::ConvLayout::kChannelsFirst);
}

Result<void> InferGlobalPool(InferContext& c) {
  if (c.rank(0) < 0) return {};
  if (c.rank(0) < 3) return Invalid("the input should have rank 3 or more, has {}", c.rank(0));
  Dims out = c.dims(0);
  for (size_t i = 2; i < out.size(); ++i) {
    if (out[i] == Dim(0)) return Invalid("a spatial extent is 0: there is nothing to pool");
    out[i] = Dim(1);
  }
  return c.SetDims(0, std::move(out));
}

Result<kernels::PoolShape> PoolShapeOf(const BindContext& c, kernels::ConvLayout layout) {
  const bool last = layout == kernels::ConvLayout::kChannelsLast;
  const Shape x = last ? ChannelsFirst(c.input(0)) : c.input(0);
  PX_ASSIGN_OR_RETURN(Window window, ReadWindow(c, x.rank() - 2, {}));
  kernels::PoolShape s;
  s.batch = x[0];
  s.channels = x[1];
  s.rank = window.rank;
  for (int i = 0; i < s.rank; ++i) {
    const size_t d = static_cast<size_t>(i);
    s.in[i] = x[2 + i];
    s.kernel[i] = window.kernel[d];
    s.strides[i] = window.strides[d];
    s.dilations[i] = window.dilations[d];
    const Pads pads = PadsOf(window, i, s.in[i]);
    s.pads_begin[i] = pads.begin;
    s.pads_end[i] = pads.end;
    // Output 0 may be left out (MaxPool for its indices alone).
    PX_ASSIGN_OR_RETURN(Dim out,
                        OutputExtent(window, i, Dim(s.in[i]), RoundingOf(c), WindowFit::kFormula));
    s.out[i] = out.extent;
  }
  return s;
}

kernels::PoolShape GlobalPoolShape(const Shape& x) {
  kernels::PoolShape s;
  s.channels = x[0] * x[1];
  s.rank = 1;
  s.in[0] = s.kernel[0] = x.Elements(2, x.rank());
  s.out[0] = 1;
  return s;
}

Cost PoolCost(const CostContext& c) {
  double window = 1;
  if (const std::vector<int64_t>* kernel = c.Ints("kernel_shape")) {
    for (int64_t k : *kernel) window *= static_cast<double>(k);
  }
  return {.op_class = OpClass::kPool,
          .flops = window * static_cast<double>(c.output(0).elements())};
}

Cost GlobalPoolCost(const CostContext& c) {
  return {.op_class = OpClass::kPool, .flops = static_cast<double>(c.input(0).elements())};
}

}  // namespace parallax::ops
