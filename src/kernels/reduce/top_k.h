// The k largest or smallest elements along one axis, best first.
//
// Role:       ONNX TopK. A tensor is seen as [outer, axis, inner].
// Ownership:  borrows its pointers and workspace.
// Threads:    splits over the caller's team by lines along the axis.
// Cost:       O(axis log k) a line; allocates nothing.
// Invariants: always sorted; of equal elements the lower index comes first. NaN counts as the
//             largest value (first when largest, last when smallest). -0 equals +0.
// Example:
//   TopK(TopKOrder::kLargest, DType::kF32, 1, n, 1, k, in, values, indices, workspace, team);
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class TopKOrder : uint8_t { kLargest, kSmallest };

// Bytes of workspace for TopK, aligned to 8.
size_t TopKWorkspaceBytes(int64_t k, int team_size);

// values[outer, k, inner] (of `dtype`) and indices[outer, k, inner]; either may be null. Any
// numeric type. REQUIRES: 0 <= k <= axis.
void TopK(TopKOrder order, DType dtype, int64_t outer, int64_t axis, int64_t inner, int64_t k,
          const void* in, void* values, int64_t* indices, void* workspace, Team& team);

}  // namespace parallax::kernels
