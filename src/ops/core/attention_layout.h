// AttentionLayout: which axis of an operand of attention is what.
//
// Role:       FusedAttention reads it from attributes, the pass that makes such nodes writes it:
//             transposes and slices around attention become words, and strides in the kernel.
// Threads:    a value type.
// Invariants: one letter an axis: b batch (any number, outermost first), h heads (at most one), s
//             sequence (one), d depth (one), p parts of which the operand is one (at most one).
// Example:
//   "bhsd" is what MatMul takes, "bshd" what a linear layer gives, "bspd" with part 1 the K of a
//   joint projection of Q, K and V.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/types.h"

namespace parallax::ops {

struct AttentionLayout {
  std::string letters;
  int64_t part = 0;

  // Checks the letters against the invariants, the rank and the part's range.
  Result<void> Check(const Dims& dims) const;
  // The axis of that letter, or -1.
  int Axis(char letter) const;
  // Extents of the batch axes in order, heads last where there are any.
  Dims Batch(const Dims& dims) const;
  // The axes of Batch.
  std::vector<int> BatchAxes() const;
};

}  // namespace parallax::ops
