// RecurrentRows: where sequence b is at step s, and which rows of the tensors belong to it.
//
// Role:       internal to recurrent.cc and generic_recurrent.h.
// Ownership:  borrows the shape and the lengths.
// Threads:    pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/recurrent/recurrent.h"

namespace parallax::kernels {

struct RecurrentRows {
  const RecurrentShape& s;
  const int32_t* lens;  // null: all whole

  bool BatchFirst() const { return s.layout == RecurrentLayout::kBatchFirst; }
  bool Reverse(int d) const { return d == 1 || s.first_is_reverse; }
  int64_t Length(int64_t b) const { return lens == nullptr ? s.sequence : lens[b]; }
  int64_t LongestLength() const {
    if (lens == nullptr) return s.batch == 0 ? 0 : s.sequence;
    int64_t longest = 0;
    for (int64_t b = 0; b < s.batch; ++b) longest = std::max<int64_t>(longest, lens[b]);
    return longest;
  }
  // The position in time of `step`. REQUIRES: step < Length(b).
  int64_t Time(int d, int64_t b, int64_t step) const {
    return Reverse(d) ? Length(b) - 1 - step : step;
  }

  // Rows of x [., input], y [., hidden] and the states [., hidden].
  int64_t X(int64_t t, int64_t b) const {
    return BatchFirst() ? b * s.sequence + t : t * s.batch + b;
  }
  int64_t Y(int64_t t, int d, int64_t b) const {
    return BatchFirst() ? (b * s.sequence + t) * s.directions + d
                        : (t * s.directions + d) * s.batch + b;
  }
  int64_t State(int d, int64_t b) const {
    return BatchFirst() ? b * s.directions + d : d * s.batch + b;
  }
};

}  // namespace parallax::kernels
