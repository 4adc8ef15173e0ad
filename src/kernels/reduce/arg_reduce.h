// ArgMax and ArgMin along one axis, and cumulative sums along one axis.
//
// Role:       ONNX ArgMax, ArgMin, CumSum. A tensor is seen as [outer, axis, inner].
// Ownership:  borrows its pointers.
// Threads:    splits over the caller's team by lines along the axis.
// Cost:       one pass over memory; allocates nothing.
// Invariants: the same bits for every team size.
// Example:
//   ArgReduce(ArgOp::kMax, Ties::kFirst, DType::kF32, rows, classes, 1, in, out, team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class ArgOp : uint8_t { kMax, kMin };
enum class Ties : uint8_t { kFirst, kLast };  // which of equal elements wins

// out[outer, inner] = index of the extreme element. A NaN wins over every number (numpy.argmax).
// Any numeric type. REQUIRES: axis > 0 unless there is no output.
void ArgReduce(ArgOp op, Ties ties, DType dtype, int64_t outer, int64_t axis, int64_t inner,
               const void* in, int64_t* out, Team& team);

enum class CumSumEnd : uint8_t { kInclusive, kExclusive };  // exclusive: without the element itself
enum class CumSumOrder : uint8_t { kForward, kReverse };

// Running sums along the axis, in the type's own arithmetic (f16 and bf16: running sum in f32, f32:
// in f64, each rounded once; integers wrap). Any numeric type; out may be in.
void CumSum(DType dtype, int64_t outer, int64_t axis, int64_t inner, const void* in, void* out,
            CumSumEnd end, CumSumOrder order, Team& team);

}  // namespace parallax::kernels
