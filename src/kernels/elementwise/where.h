// Where: out = cond ? a : b with three-way broadcasting.
//
// Role:       ONNX Where; works on raw memory, so for any element type.
// Ownership:  borrows its pointers; out may be a or b if read densely (BroadcastPlan3::IsDense).
// Threads:    splits over the caller's team.
// Cost:       one pass over memory; allocates nothing.
// Example:
//   Where(4, MakeBroadcastPlan(cond_shape, a_shape, b_shape), cond, a, b, out, team);
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise/broadcast.h"
#include "threads/team.h"

namespace parallax::kernels {

// Operands of the plan in the order cond, a, b. REQUIRES: elem_size is 1, 2, 4 or 8.
void Where(size_t elem_size, const BroadcastPlan3& plan, const bool* cond, const void* a,
           const void* b, void* out, Team& team);

}  // namespace parallax::kernels
