// Broadcast plans: NumPy broadcasting reduced to the fewest strided loops.
//
// Role:       made once per shape when an operator is bound; used by Binary, Pow and Where.
// Ownership:  plain values of fixed size; copying allocates nothing.
// Threads:    pure.
// Cost:       O(rank) to make.
// Invariants: loops are outermost first and there is at least one; extents multiply to `elements`;
//             no two neighbouring loops could be one; strides count elements, 0 where an operand is
//             repeated; the innermost stride of each operand is 0 or 1.
// Example:
//   BroadcastPlan plan = MakeBroadcastPlan({8, 1, 4}, {3, 1});  // output [8,3,4]
//   Binary(BinaryOp::kAdd, DType::kF32, plan, a, b, out, team);
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/shape.h"

namespace parallax::kernels {

template <int kOperands>
struct BroadcastLoops {
  Shape shape;           // of the output, before loops were merged
  int64_t elements = 0;  // of the output
  int rank = 0;          // loops
  std::array<int64_t, kMaxRank> extent = {};
  std::array<std::array<int64_t, kMaxRank>, kOperands> stride = {};

  // Operand `i` is read once, in output order: out may be the same buffer.
  bool IsDense(int i) const {
    return rank == 1 && (stride[static_cast<size_t>(i)][0] == 1 || elements <= 1);
  }
};
using BroadcastPlan = BroadcastLoops<2>;
using BroadcastPlan3 = BroadcastLoops<3>;

// The common shape of `shapes` (right-aligned, extent 1 repeats), or an error naming them.
Result<Shape> BroadcastShape(std::span<const Shape> shapes);

// REQUIRES: the shapes broadcast (BroadcastShape succeeds).
BroadcastPlan MakeBroadcastPlan(const Shape& a, const Shape& b);
BroadcastPlan3 MakeBroadcastPlan(const Shape& a, const Shape& b, const Shape& c);

}  // namespace parallax::kernels
