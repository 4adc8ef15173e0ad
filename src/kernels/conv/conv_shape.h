// ConvShape: the extents and attributes of an N-d convolution or transposed convolution.
//
// Role:       filled by the operators from attributes and shapes; read by every convolution kernel.
// Threads:    a value type.
// Invariants: (validated by the caller) groups divides both channel counts; strides, dilations and
//             kernel extents are at least 1; pads may be any value, negative ones crop.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace parallax::kernels {

inline constexpr int kMaxSpatial = kMaxRank - 2;

// Where the channels of input, output and residual stand: [batch, channels, spatial...] as in ONNX, or
// [batch, spatial..., channels]. Weights are always [out, in/groups, kernel...].
enum class ConvLayout : uint8_t {
  kChannelsFirst,
  kChannelsLast,
  kFirstToLast,  // the input first, output and residual last: where an image of few planes comes in
};

// A part of the input's channels: `channels` of them from `first` on in pixels of `pixel` channels.
struct ConvSource {
  int64_t channels = 0, first = 0, pixel = 0;
};
inline constexpr int kMaxConvSources = 16;

struct ConvShape {
  ConvLayout layout = ConvLayout::kChannelsFirst;
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in_channels = 0;   // all groups together
  int64_t out_channels = 0;  // all groups together
  int rank = 2;              // spatial dimensions, 1..kMaxSpatial
  int64_t in[kMaxSpatial] = {};
  int64_t out[kMaxSpatial] = {};  // computed by shape inference, pads_end and output_padding in it
  int64_t kernel[kMaxSpatial] = {};
  int64_t strides[kMaxSpatial] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  int64_t dilations[kMaxSpatial] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  int64_t pads_begin[kMaxSpatial] = {};
  // Channels last: where the input's channels lie, in order; none: in one picture of their own. See
  // SupportsSources.
  int source_count = 0;
  ConvSource sources[kMaxConvSources] = {};

  int64_t InSize() const { return Product(in); }
  int64_t OutSize() const { return Product(out); }
  int64_t KernelSize() const { return Product(kernel); }
  // Floats from a pixel of the (first) input to the next, with channels last.
  int64_t InPixel() const { return source_count > 0 ? sources[0].pixel : in_channels; }

 private:
  int64_t Product(const int64_t* extents) const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extents[i];
    return n;
  }
};

}  // namespace parallax::kernels
