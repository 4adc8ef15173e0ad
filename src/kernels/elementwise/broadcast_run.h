// Runs the loops of a broadcast plan: calls a row function for each innermost run.
//
// Role:       shared by Binary, Pow and Where.
// Threads:    splits over the caller's team in flat pieces of the output, so that any shape splits
//             evenly; a row that two pieces share is simply cut.
// Cost:       a few additions a row.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/elementwise/broadcast.h"
#include "kernels/elementwise/split.h"

namespace parallax::kernels {

// row(out_begin, offsets, n): output elements [out_begin, out_begin + n) come from operand k at
// offsets[k] on, stepping by the plan's innermost stride.
template <int kOperands, class Row>
void ForBroadcastRows(const BroadcastLoops<kOperands>& plan, Team& team, Row&& row) {
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  ForRanges(plan.elements, kTaskElements, team, [&](int64_t begin, int64_t end) {
    std::array<int64_t, kMaxRank> at = {};
    std::array<int64_t, kOperands> offset = {};
    int64_t rest = begin;
    for (size_t r = last + 1; r-- > 0;) {
      at[r] = rest % plan.extent[r];
      rest /= plan.extent[r];
      for (size_t k = 0; k < kOperands; ++k) offset[k] += at[r] * plan.stride[k][r];
    }
    for (int64_t i = begin; i < end;) {
      const int64_t n = std::min(end - i, plan.extent[last] - at[last]);
      row(i, offset, n);
      i += n;
      // Back to the start of the row, then on to the next one.
      for (size_t k = 0; k < kOperands; ++k) offset[k] -= at[last] * plan.stride[k][last];
      at[last] = 0;
      for (size_t r = last; r-- > 0;) {
        for (size_t k = 0; k < kOperands; ++k) offset[k] += plan.stride[k][r];
        if (++at[r] < plan.extent[r]) break;
        for (size_t k = 0; k < kOperands; ++k) offset[k] -= plan.extent[r] * plan.stride[k][r];
        at[r] = 0;
      }
    }
  });
}

// Rows shorter than this are not worth a call each: operands are packed instead.
inline constexpr int64_t kShortRow = 16;

// Elements [begin, begin + n) of operand k, in output order, into `packed`.
template <int kOperands, class T>
void PackOperand(const BroadcastLoops<kOperands>& plan, size_t k, const T* operand, int64_t begin,
                 int64_t n, T* packed) {
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  const std::array<int64_t, kMaxRank>& stride = plan.stride[k];
  std::array<int64_t, kMaxRank> at = {};
  int64_t offset = 0;
  int64_t rest = begin;
  for (size_t r = last + 1; r-- > 0;) {
    at[r] = rest % plan.extent[r];
    rest /= plan.extent[r];
    offset += at[r] * stride[r];
  }
  for (int64_t i = 0; i < n;) {
    const int64_t run = std::min(n - i, plan.extent[last] - at[last]);
    for (int64_t x = 0; x < run; ++x) packed[i + x] = operand[offset + x * stride[last]];
    i += run;
    offset -= at[last] * stride[last];
    at[last] = 0;
    for (size_t r = last; r-- > 0;) {
      offset += stride[r];
      if (++at[r] < plan.extent[r]) break;
      offset -= plan.extent[r] * stride[r];
      at[r] = 0;
    }
  }
}

// Whether operand k is read in output order, each element once.
template <int kOperands>
bool IsWhole(const BroadcastLoops<kOperands>& plan, size_t k) {
  int64_t dense = 1;
  for (size_t r = static_cast<size_t>(plan.rank); r-- > 0;) {
    if (plan.stride[k][r] != dense) return false;
    dense *= plan.extent[r];
  }
  return true;
}

}  // namespace parallax::kernels
