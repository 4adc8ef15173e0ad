// Reductions over any set of axes.
//
// Role:       ONNX Reduce*; means of normalisation when the axes are not a trailing block.
// Ownership:  borrows its pointers; the plan is a plain value.
// Threads:    splits over the caller's team by outputs; few outputs of many inputs split their
//             inputs in fixed chunks.
// Cost:       one pass over memory (two for kLogSumExp); allocates nothing.
// Invariants: the order of summation depends on the plan alone: the same bits for every team size.
//             f32, f16 and bf16 sum runs of at most 512 terms in four f32 accumulators a lane and
//             add the runs in f64: |error| <= (128 / lanes + 8) 2^-24 sum|x| for a contiguous
//             reduction (8 lanes on AVX2, 1 on the scalar target), 129 2^-24 sum|x| for a strided
//             one, plus the final rounding, whatever the length. f64 sums in f64. Integers sum
//             modulo 2^64. NaN anywhere makes kMax and kMin NaN. An empty set gives: sums 0, kProd
//             1, kMean NaN (integers 0), kMax the lowest value (floats -inf), kMin the highest
//             (+inf), kLogSum and kLogSumExp -inf.
// Example:
//   ReducePlan plan = MakeReducePlan(shape, axes);
//   Reduce(ReduceOp::kMean, DType::kF32, plan, in, out, team);
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class ReduceOp : uint8_t {
  kSum,
  kMean,
  kMax,  // bool: or
  kMin,  // bool: and
  kProd,
  kL1,         // sum |x|
  kL2,         // sqrt(sum x^2)
  kLogSum,     // log(sum x)
  kLogSumExp,  // log(sum exp(x)), without overflow
  kSumSquare,
};

// The input as alternating loops, outermost first, each kept or reduced; loops of extent 1 are gone
// and neighbours of one kind are merged.
struct ReducePlan {
  int rank = 0;
  std::array<int64_t, kMaxRank> extent = {};
  std::array<bool, kMaxRank> reduced = {};
  int64_t outputs = 1;     // elements of the result
  int64_t per_output = 1;  // inputs of each
};

// `axes` are in [0, rank), in any order; a repeated axis counts once; none: nothing is reduced
// (each element becomes the reduction of itself). The result has the kept extents in order
// (keepdims only changes how the caller calls its shape).
ReducePlan MakeReducePlan(const Shape& shape, std::span<const int64_t> axes);

// Whether `op` takes elements of `dtype`: any number; bool for kMax and kMin. The result has the
// same type; kMean of integers truncates, kL2, kLogSum and kLogSumExp of integers go through f64.
bool ReduceSupports(ReduceOp op, DType dtype);

// REQUIRES: ReduceSupports(op, dtype).
void Reduce(ReduceOp op, DType dtype, const ReducePlan& plan, const void* in, void* out,
            Team& team);

}  // namespace parallax::kernels
