// DepthwiseLastArgs: what the register blocks of a depthwise convolution with channels last read and
// write.
//
// Role:       between depthwise_last.cc (the loops) and depthwise_block-inl.h (the blocks).
// Ownership:  borrows every pointer.
// Threads:    a value type.
#pragma once

#include <cstdint>

#include "kernels/conv/conv_paths.h"
#include "kernels/conv/patch.h"

namespace parallax::kernels {

inline constexpr int64_t kLineChannels = 16;  // of a cache line

// A part of the output of one image.
struct DepthwiseLastArgs {
  const ConvAxes* axes = nullptr;
  int64_t channels = 0;
  DepthwisePart part = {};
  RowRing ring = {};
  const float* input = nullptr;    // the ring's first row
  const float* weights = nullptr;  // [tap][channels]
  const float* bias = nullptr;
  const float* residual = nullptr;  // of the image
  float* output = nullptr;          // of the image
  float lo = 0, hi = 0;             // infinite where nothing is clamped
};

}  // namespace parallax::kernels
