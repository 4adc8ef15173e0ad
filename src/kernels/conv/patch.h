// Patch: a block of a convolution's input, copied with its padding so that every tap is a shift.
//
// Role:       internal to conv and pool. Output positions of a block of rows and columns are
//             numbered p = row * pitch + column, with a pitch a little wider than the block. In the
//             patch of one input channel, the element that kernel tap t needs for position p is at
//             tap_offsets[t] + p, for all taps and positions: inner loops read whole vectors along
//             p, across row ends, without clipping, strides or dilation. (Positions in the gap
//             between rows give values that nobody stores.)
// How:        with a stride, element i of a padded row belongs to phase i % stride; each phase that
//             some tap uses is kept as a row of its own, where neighbours in p are neighbours.
//             Tap k*dilation = shift*stride + phase.
// Ownership:  a value type; copies into the caller's buffer.
// Threads:    pure.
// Cost:       one copy of the block's input per channel, plus halo and padding; against kernel size
//             times that for im2col.
#pragma once

#include <cstdint>

#include "kernels/conv/conv_shape.h"

namespace parallax::kernels {

// Taps of the largest kernel that patches support; larger ones take the direct path.
inline constexpr int64_t kMaxTaps = 1024;

// The last three spatial dimensions (depth, rows, columns); missing ones are 1.
struct ConvAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  // Distinct phases that taps use, and for a tap which one and how far shifted.
  int64_t phases = 1;
  int64_t max_shift = 0;
  int64_t Shift(int64_t tap) const { return tap * dilation / stride; }
  int64_t Phase(int64_t tap) const { return tap * dilation % stride; }
};

// The axes of a shape of rank 1..3.
struct ConvAxes {
  ConvAxis depth, rows, columns;
};
ConvAxes MakeAxes(const ConvShape& shape);

// Geometry of the patch of one channel for blocks of up to `block_rows` x `block_columns` output
// positions at one output depth.
struct PatchLayout {
  ConvAxes axes;
  int64_t block_rows = 0, block_columns = 0;
  int64_t pitch = 0;         // block_columns + the largest column shift
  int64_t channel_size = 0;  // floats; neighbours do not fall into the same cache sets

  PatchLayout() = default;
  PatchLayout(const ConvAxes& axes, int64_t block_rows, int64_t block_columns);
  int64_t taps() const { return axes.depth.kernel * axes.rows.kernel * axes.columns.kernel; }
  // Writes taps() offsets, kernel order (depth, row, column).
  void TapOffsets(int64_t* offsets) const;
  // Positions from the first to the last of a block.
  int64_t Positions(int64_t rows, int64_t columns) const { return (rows - 1) * pitch + columns; }
};

// The output block of one task.
struct PatchBlock {
  int64_t depth = 0;          // output depth
  int64_t row = 0, rows = 0;  // output rows [row, row + rows)
  int64_t column = 0, columns = 0;
};

// Copies the block's input of `channels` channels, `channel_stride` floats apart in the input, to
// patches layout.channel_size floats apart. Everything a valid position reads is written; outside
// the input that is `fill`.
void CopyPatches(const PatchLayout& layout, const PatchBlock& block, const float* input,
                 int64_t channels, int64_t channel_stride, float fill, float* patches);

// to[i] = from[i * stride], i < n; vectors for strides 1 and 2.
void CopyStrided(const float* from, int64_t stride, int64_t n, float* to);

}  // namespace parallax::kernels
