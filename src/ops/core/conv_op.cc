#include "ops/core/conv_op.h"

#include <algorithm>

#include "ops/core/dims.h"
#include "ops/core/window.h"

namespace parallax::ops {
Result<void> InferConv(InferContext& c, kernels::ConvLayout layout,
                       std::optional<Dim> in_channels) {
  const bool last = layout == kernels::ConvLayout::kChannelsLast;
  const int64_t groups = c.Int("group", 1);
  if (groups < 1) return Invalid("group is {}", groups);
  const int rank = std::max(c.rank(0), c.rank(1));
  if (c.rank(0) < 0 || c.rank(1) < 0) return rank < 0 ? Result<void>() : c.SetUnknownDims(0, rank);
  Dims x = last ? ChannelsFirst(c.dims(0)) : c.dims(0);
  const Dims& w = c.dims(1);
  if (x.size() < 3 || x.size() != w.size()) {
    return Invalid("input {} and weights {} should have one rank of 3 or more", DimsToString(x),
                   DimsToString(w));
  }
  if (in_channels) x[1] = *in_channels;
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
  if (layout != kernels::ConvLayout::kChannelsFirst)
    std::rotate(out.begin() + 1, out.begin() + 2, out.end());
  return c.SetDims(0, std::move(out));
}

Cost ConvCost(const CostContext& c) {
  const Shape& w = c.input(1);
  return {.op_class = OpClass::kConv,
          .flops = 2.0 * static_cast<double>(c.output(0).elements()) *
                   static_cast<double>(w.Elements(1, w.rank()))};
}

Result<kernels::ConvShape> ConvShapeOf(const BindContext& c, kernels::ConvLayout layout) {
  const bool last = layout == kernels::ConvLayout::kChannelsLast;
  const Shape x = last ? ChannelsFirst(c.input(0)) : c.input(0);
  const Shape y =
      layout != kernels::ConvLayout::kChannelsFirst ? ChannelsFirst(c.output(0)) : c.output(0);
  const Shape& w = c.input(1);
  PX_ASSIGN_OR_RETURN(Window window, ReadWindow(c, x.rank() - 2, w.dims().subspan(2)));
  kernels::ConvShape s;
  s.layout = layout;
  s.batch = x[0];
  s.groups = c.Int("group", 1);
  s.in_channels = x[1];
  s.out_channels = w[0];
  FillSpatial(window, x, y, &s);
  for (int i = 0; i < s.rank; ++i) s.pads_begin[i] = PadsOf(window, i, s.in[i]).begin;
  return s;
}

std::vector<AttributeDef> ConvAttributes() {
  return {{.name = "auto_pad", .type = AttributeType::kString},
          {.name = "dilations", .type = AttributeType::kInts},
          {.name = "group"},
          {.name = "kernel_shape", .type = AttributeType::kInts},
          {.name = "pads", .type = AttributeType::kInts},
          {.name = "strides", .type = AttributeType::kInts}};
}

}  // namespace parallax::ops
