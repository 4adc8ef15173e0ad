// Softmax and LogSoftmax along one axis.
//
// Role:       ONNX Softmax and LogSoftmax (opset 13 on: one axis; before: inner = 1 after
//             flattening). A tensor is seen as [outer, axis, inner].
// Ownership:  borrows its pointers; out may be in.
// Threads:    splits over the caller's team by lines along the axis.
// Cost:       three passes over a line, which stays in cache up to thousands of elements; f32 on
//             SIMD for every inner; allocates nothing.
// Invariants: the same bits for every team size. The maximum is subtracted first: no overflow.
//             Relative error of f32: at most (|x - max| + 256 / lanes + 14) 2^-24 along memory and
//             (|x - max| + 134) 2^-24 across it, the first term being the rounding of x - max and
//             the second the sum's worst case. A line with NaN or +inf, or of only -inf, becomes
//             NaN.
// Example:
//   Softmax(SoftmaxKind::kSoftmax, DType::kF32, rows, cols, 1, in, out, team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class SoftmaxKind : uint8_t { kSoftmax, kLogSoftmax };

// Float types; f16 and bf16 compute in f32.
void Softmax(SoftmaxKind kind, DType dtype, int64_t outer, int64_t axis, int64_t inner,
             const void* in, void* out, Team& team);

}  // namespace parallax::kernels
