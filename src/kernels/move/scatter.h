// Scatters: writes, or combines, at places that a tensor of indices names.
//
// Role:       ONNX ScatterElements, ScatterND.
// Ownership:  borrows its pointers. `out` already holds a copy of the data to be updated.
// Threads:    splits over the caller's team by lines (elements) or by columns of slices (ND), never
//             two workers on one element.
// Cost:       one pass over the updates; allocates nothing.
// Invariants: updates of one place are applied in the order of the updates tensor, so the last one
//             wins without a reduction; the same bits for every team size. Checked indices as in
//             gather.h. Integers wrap; kMax and kMin propagate NaN; f16 and bf16 round every step.
// Example:
//   memcpy(out, data, bytes);
//   ScatterNd(ScatterReduction::kAdd, DType::kF32, n, 2, bounds, inner, DType::kI64, idx, u, out,
//   team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class ScatterReduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };

// out[j_0, .., indices[j], ..] op= updates[j], indices and updates in index_shape.
// Any type for kNone; numbers for the others, bool too (kAdd, kMax: or; kMul, kMin: and).
void ScatterElements(ScatterReduction reduction, DType dtype, const Shape& data_shape,
                     const Shape& index_shape, int axis, DType index, const void* indices,
                     const void* updates, void* out, Team& team);

// out[indices[j, 0], .., indices[j, width - 1], :] op= updates[j, :] for n tuples, slices of
// `inner` elements; out = [bounds[0] .. bounds[width - 1], inner].
void ScatterNd(ScatterReduction reduction, DType dtype, int64_t n, int64_t width,
               const int64_t* bounds, int64_t inner, DType index, const void* indices,
               const void* updates, void* out, Team& team);

}  // namespace parallax::kernels
