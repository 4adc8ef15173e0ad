// Gathers: reads at places that a tensor of indices names.
//
// Role:       ONNX Gather, GatherElements, GatherND.
// Ownership:  borrows its pointers; out must not overlap the inputs.
// Threads:    splits over the caller's team.
// Cost:       one pass over the output, by memcpy where runs are contiguous; allocates nothing.
// Invariants: negative indices count from the end. Indices must have been checked: FirstBadIndex
//             tells the caller which one to report.
// Example:
//   if (int64_t bad = FirstBadIndex(DType::kI64, idx, n, rows); bad >= 0) return MakeError(...);
//   Gather(4, outer, rows, inner, DType::kI64, idx, n, in, out, team);
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

// Position of the first index outside [-bound, bound), or -1. `index` is kI32 or kI64, here and
// below.
int64_t FirstBadIndex(DType index, const void* indices, int64_t n, int64_t bound);
// The same for n tuples of `width` indices, component k bounded by bounds[k]; the position counts
// single indices.
int64_t FirstBadTuple(DType index, const void* indices, int64_t n, int64_t width,
                      const int64_t* bounds);
// Index i of a flat run of n, as a non-negative number below bound.
int64_t IndexAt(DType index, const void* indices, int64_t i, int64_t bound);

// out[o, j, i] = in[o, indices[j], i]: in is [outer, axis, inner], out [outer, n, inner].
void Gather(size_t elem_size, int64_t outer, int64_t axis, int64_t inner, DType index,
            const void* indices, int64_t n, const void* in, void* out, Team& team);

// out[j_0, .., j_axis, ..] = in[j_0, .., indices[j], ..], in the shape of indices.
// REQUIRES: one rank, and indices no larger than in on every axis but `axis`.
void GatherElements(size_t elem_size, const Shape& in_shape, const Shape& index_shape, int axis,
                    DType index, const void* indices, const void* in, void* out, Team& team);

// For each of `batch` blocks: out[b, j, :] = in[b, indices[b, j, 0], .., indices[b, j, width - 1],
// :] with in = [batch, bounds[0] .. bounds[width - 1], inner] and n tuples a block.
void GatherNd(size_t elem_size, int64_t batch, int64_t n, int64_t width, const int64_t* bounds,
              int64_t inner, DType index, const void* indices, const void* in, void* out,
              Team& team);

}  // namespace parallax::kernels
