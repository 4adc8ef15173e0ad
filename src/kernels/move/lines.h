// Walks the lines along one axis of an index tensor that lies inside a larger data tensor.
//
// Role:       shared by GatherElements and ScatterElements.
// Threads:    pure.
#pragma once

#include <array>
#include <cstdint>

#include "base/shape.h"

namespace parallax::kernels {

struct Lines {
  // REQUIRES: one rank >= 1; index extents at most the data's on every other axis.
  Lines(const Shape& data, const Shape& index, int along) : rank(index.rank()), axis(along) {
    int64_t data_stride = 1;
    int64_t index_stride = 1;
    for (int k = rank; k-- > 0;) {
      const size_t i = static_cast<size_t>(k);
      extent[i] = index[k];
      data_strides[i] = data_stride;
      index_strides[i] = index_stride;
      data_stride *= data[k];
      index_stride *= index[k];
      if (k != axis) count *= index[k];
    }
    bound = data[axis];
    length = index[axis];
    data_step = data_strides[static_cast<size_t>(axis)];
    index_step = index_strides[static_cast<size_t>(axis)];
  }

  // Where line `line` starts in both tensors.
  void Locate(int64_t line, int64_t& data_offset, int64_t& index_offset) const {
    data_offset = index_offset = 0;
    for (int k = rank; k-- > 0;) {
      if (k == axis) continue;
      const size_t i = static_cast<size_t>(k);
      const int64_t at = line % extent[i];
      line /= extent[i];
      data_offset += at * data_strides[i];
      index_offset += at * index_strides[i];
    }
  }

  int rank;
  int axis;
  int64_t count = 1;   // lines
  int64_t length = 0;  // indices of a line
  int64_t bound = 0;   // data's extent along the axis
  int64_t data_step = 0;
  int64_t index_step = 0;
  std::array<int64_t, kMaxRank> extent = {};
  std::array<int64_t, kMaxRank> data_strides = {};
  std::array<int64_t, kMaxRank> index_strides = {};
};

}  // namespace parallax::kernels
