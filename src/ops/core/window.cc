#include "ops/core/window.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"

namespace parallax::ops {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;

Result<std::vector<int64_t>> ReadList(const NodeContext& c, std::string_view name, size_t count,
                                      int64_t fallback, int64_t least) {
  std::vector<int64_t> values = c.IntsOr(name, count, fallback);
  if (values.size() != count) {
    return Invalid("{} has {} values, should have {}", name, values.size(), count);
  }
  for (int64_t v : values) {
    if (v < least || v >= kLimit) return Invalid("{} has the value {}", name, v);
  }
  return values;
}

}  // namespace

Dims ChannelsFirst(Dims dims) {
  if (dims.size() > 2) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return dims;
}

Shape ChannelsFirst(const Shape& last) {
  Shape first;
  first.Append(last[0]);
  first.Append(last[last.rank() - 1]);
  for (int i = 1; i + 1 < last.rank(); ++i) first.Append(last[i]);
  return first;
}

Result<Window> ReadWindow(const NodeContext& c, int rank, std::span<const int64_t> kernel) {
  Window w;
  w.rank = rank;
  const size_t n = static_cast<size_t>(rank);
  if (rank < 1 || rank > kernels::kMaxSpatial) {
    return Invalid("{} spatial dimensions, should be 1 to {}", rank, kernels::kMaxSpatial);
  }
  if (const std::vector<int64_t>* attribute = c.Ints("kernel_shape")) {
    PX_ASSIGN_OR_RETURN(w.kernel, ReadList(c, "kernel_shape", n, 1, 1));
    if (!kernel.empty() && !std::equal(kernel.begin(), kernel.end(), attribute->begin())) {
      return Invalid("kernel_shape is [{}], the weights are [{}]", fmt::join(*attribute, ","),
                     fmt::join(kernel, ","));
    }
  } else {
    w.kernel.assign(kernel.begin(), kernel.end());
    for (int64_t k : w.kernel) {
      if (k < 1 || k >= kLimit) return Invalid("a kernel extent is {}", k);
    }
  }
  if (w.kernel.size() != n) return Invalid("kernel_shape is missing");
  int64_t taps = 1;
  for (int64_t k : w.kernel) {
    const std::optional<int64_t> next = CheckedMul(taps, k);
    if (!next) return Invalid("kernel [{}] has too many elements", fmt::join(w.kernel, ","));
    taps = *next;
  }
  PX_ASSIGN_OR_RETURN(w.strides, ReadList(c, "strides", n, 1, 1));
  PX_ASSIGN_OR_RETURN(w.dilations, ReadList(c, "dilations", n, 1, 1));
  PX_ASSIGN_OR_RETURN(std::vector<int64_t> pads, ReadList(c, "pads", 2 * n, 0, -kLimit));
  w.pads_begin.assign(pads.begin(), pads.begin() + rank);
  w.pads_end.assign(pads.begin() + rank, pads.end());
  const std::string_view mode = c.String("auto_pad", "NOTSET");
  if (mode == "VALID") {
    w.auto_pad = AutoPad::kValid;
  } else if (mode == "SAME_UPPER") {
    w.auto_pad = AutoPad::kSameUpper;
  } else if (mode == "SAME_LOWER") {
    w.auto_pad = AutoPad::kSameLower;
  } else if (mode != "NOTSET" && !mode.empty()) {
    return Invalid("auto_pad is '{}'", mode);
  }
  return w;
}

Pads PadsOf(const Window& w, int i, int64_t in) {
  const size_t d = static_cast<size_t>(i);
  if (w.auto_pad == AutoPad::kNotSet) return {w.pads_begin[d], w.pads_end[d]};
  if (w.auto_pad == AutoPad::kValid) return {};
  const int64_t out = CeilDiv(in, w.strides[d]);
  const int64_t total =
      std::max<int64_t>(0, (std::max<int64_t>(out, 1) - 1) * w.strides[d] + w.Effective(i) - in);
  const int64_t less = total / 2, more = total - less;
  return w.auto_pad == AutoPad::kSameUpper ? Pads{less, more} : Pads{more, less};
}

Result<Dim> OutputExtent(const Window& w, int i, const Dim& in, Rounding rounding, WindowFit fit) {
  if (!in.known()) return Dim();
  const size_t d = static_cast<size_t>(i);
  const int64_t stride = w.strides[d];
  if (w.auto_pad == AutoPad::kSameUpper || w.auto_pad == AutoPad::kSameLower) {
    return Dim(CeilDiv(in.extent, stride));
  }
  const Pads pads = PadsOf(w, i, in.extent);
  const int64_t room = in.extent + pads.begin + pads.end - w.Effective(i);
  // Division toward minus infinity.
  const auto floor_div = [&](int64_t a) { return a / stride - (a % stride < 0 ? 1 : 0); };
  int64_t out = rounding == Rounding::kFloor ? floor_div(room) + 1 : -floor_div(-room) + 1;
  if (rounding == Rounding::kCeil && (out - 1) * stride >= in.extent + pads.begin) --out;
  if (out < 0 || (fit == WindowFit::kOnce && room < 0)) {
    return Invalid("dimension {}: extent {} with pads {} and {} is smaller than the kernel's {}", i,
                   in.extent, pads.begin, pads.end, w.Effective(i));
  }
  return Dim(out);
}

void FillSpatial(const Window& w, const Shape& in, const Shape& out, kernels::ConvShape* shape) {
  shape->rank = w.rank;
  for (int i = 0; i < w.rank; ++i) {
    const size_t d = static_cast<size_t>(i);
    shape->in[i] = in[2 + i];
    shape->out[i] = out[2 + i];
    shape->kernel[i] = w.kernel[d];
    shape->strides[i] = w.strides[d];
    shape->dilations[i] = w.dilations[d];
  }
}

}  // namespace parallax::ops
