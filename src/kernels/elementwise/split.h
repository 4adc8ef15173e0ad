// How flat element ranges are cut into tasks, and 16-bit floats into blocks of f32.
//
// Role:       shared by the kernels that stream over memory.
// Threads:    pure.
// Invariants: cuts depend on the element count alone, never on the team.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "threads/team.h"

namespace parallax::kernels {

// Elements of one task: 16 Ki, so that a task of the cheapest kernel lasts some microseconds, well
// above the cost of fork and join, and a tensor of that size or less stays on the caller.
inline constexpr int64_t kTaskElements = 16384;

// Elements converted to f32 at a time: two such buffers stay in L1.
inline constexpr int64_t kHalfBlock = 1024;

// f(begin, end) over [0, n) in pieces of `grain`.
template <class F>
void ForRanges(int64_t n, int64_t grain, Team& team, F&& f) {
  if (n <= 0) return;
  team.Run(CeilDiv(n, grain), [&](int64_t task, int) {
    const int64_t begin = task * grain;
    f(begin, std::min(n, begin + grain));
  });
}

// Rows a task should take so that it has about kTaskElements elements.
constexpr int64_t RowsPerTask(int64_t row_elements) {
  return row_elements >= kTaskElements ? 1 : kTaskElements / (row_elements < 1 ? 1 : row_elements);
}

}  // namespace parallax::kernels
