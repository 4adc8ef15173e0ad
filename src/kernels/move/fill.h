// Tensors made from few values: fills, ranges, identity, one-hot, triangles, reversed sequences.
//
// Role:       ONNX ConstantOfShape, Range, EyeLike, OneHot, Trilu, ReverseSequence.
// Ownership:  borrows its pointers.
// Threads:    splits over the caller's team where work is large.
// Cost:       one pass over the output; allocates nothing.
// Example:
//   int64_t n = RangeCount(DType::kI64, &start, &limit, &delta);
//   Range(DType::kI64, &start, &delta, n, out);
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

// n copies of the element at `value` (null: zero bits). elem_size is 1, 2, 4 or 8 here and below.
void Fill(size_t elem_size, const void* value, void* out, int64_t n, Team& team);

// max(ceil((limit - start) / delta), 0); -1 when delta is 0 or NaN or the count does not fit int64.
int64_t RangeCount(DType dtype, const void* start, const void* limit, const void* delta);
// out[i] = start + i * delta, floats computed in f64 and rounded once. Any numeric type.
void Range(DType dtype, const void* start, const void* delta, int64_t n, void* out);

// out[rows, cols] with ones where col - row == diagonal, else zeros. Any type.
void EyeLike(DType dtype, int64_t rows, int64_t cols, int64_t diagonal, void* out);

// out[outer, depth, inner]: `on` where the index of [outer, inner] names that depth, else `off`.
// Negative indices count from the end; one outside [-depth, depth) leaves only `off`. `index` is
// any numeric type, floats truncate.
void OneHot(size_t elem_size, int64_t outer, int64_t depth, int64_t inner, DType index,
            const void* indices, const void* off, const void* on, void* out, Team& team);

enum class Triangle : uint8_t { kLower, kUpper };
// Keeps col - row >= diagonal (kUpper) or <= diagonal (kLower) of every [rows, cols] matrix, zeros
// elsewhere. out may be in.
void Trilu(Triangle triangle, size_t elem_size, int64_t batch, int64_t rows, int64_t cols,
           int64_t diagonal, const void* in, void* out, Team& team);

// out[b, t] = in[b, lengths[b] - 1 - t] for t < lengths[b], else in[b, t]; elements are blocks of
// `inner`. b and t stand for axes 0 and 1 as batch_axis says. REQUIRES: lengths in [0, time].
enum class BatchAxis : uint8_t { kFirst, kSecond };
void ReverseSequence(size_t elem_size, BatchAxis batch_axis, int64_t batch, int64_t time,
                     int64_t inner, const int64_t* lengths, const void* in, void* out, Team& team);

}  // namespace parallax::kernels
