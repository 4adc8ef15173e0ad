// NonZero in two passes: count, then write coordinates.
//
// Role:       ONNX NonZero, whose output size only the data tells.
// Ownership:  borrows its pointers.
// Threads:    CountNonZero splits over the caller's team; the writer runs on the calling thread.
// Cost:       one pass over the input each; allocates nothing.
// Example:
//   int64_t n = CountNonZero(DType::kBool, in, elements, team);
//   NonZero(DType::kBool, shape, in, n, out);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

// Elements that are not zero (NaN counts, -0 does not).
int64_t CountNonZero(DType dtype, const void* in, int64_t n, Team& team);

// out[rank, count]: column k has the coordinates of the k-th non-zero element in row-major order.
// A scalar (rank 0) writes nothing. REQUIRES: count == CountNonZero of the same data.
void NonZero(DType dtype, const Shape& shape, const void* in, int64_t count, int64_t* out);

}  // namespace parallax::kernels
