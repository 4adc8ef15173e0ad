// Windows: kernel, strides, dilations and pads of convolutions and pools, from attributes.
//
// Role:       Conv, ConvTranspose and the pools validate and resolve their geometry here, once for
//             inference and once for binding.
// Threads:    pure.
// Invariants: after ReadWindow every number is below 2^31, the product of the kernel's extents fits
//             int64, and so do extents computed from them and from inputs, which inference keeps
//             to at most 2^56 elements.
// Source:     ONNX operator specifications of Conv, ConvTranspose and MaxPool.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/conv/conv_shape.h"
#include "ops/core/node_context.h"

namespace parallax::ops {

enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

struct Window {
  int rank = 0;  // spatial dimensions
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::kNotSet;

  // Extent that the dilated kernel covers in dimension i.
  int64_t Effective(int i) const {
    const size_t d = static_cast<size_t>(i);
    return (kernel[d] - 1) * dilations[d] + 1;
  }
};

// [batch, spatial..., channels] as [batch, channels, spatial...].
Dims ChannelsFirst(Dims last);
Shape ChannelsFirst(const Shape& last);

// `kernel`: the weights' spatial extents, or empty to take the attribute kernel_shape (which must
// agree where both are given).
Result<Window> ReadWindow(const NodeContext& c, int rank, std::span<const int64_t> kernel);

// Pads of dimension i for an input extent, auto_pad applied.
struct Pads {
  int64_t begin = 0, end = 0;
};
Pads PadsOf(const Window& w, int i, int64_t in);

enum class Rounding : uint8_t { kFloor, kCeil };
// A window larger than the padded input: convolutions refuse it, as every runtime does; pools take
// the formula as it stands, which gives 0 for one that overhangs by less than a stride or by just
// that, and 1 where kCeil lets it overhang. Less than 0 is an error.
enum class WindowFit : uint8_t { kOnce, kFormula };
// Output extent of dimension i of a convolution or pool; kCeil counts a last window that overhangs
// as long as it starts inside the input or its leading pad. Unknown for an unknown extent.
Result<Dim> OutputExtent(const Window& w, int i, const Dim& in, Rounding rounding, WindowFit fit);

// Fills rank, kernel, strides and dilations, and the spatial extents from positions 2 and up.
void FillSpatial(const Window& w, const Shape& in, const Shape& out, kernels::ConvShape* shape);

}  // namespace parallax::ops
