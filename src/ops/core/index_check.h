// Checks of index tensors when a kernel runs.
#pragma once

#include "kernels/move/gather.h"
#include "ops/core/kernel.h"

namespace parallax::ops {

// All `n` indices lie in [-bound, bound), or an error that names the first that does not.
Result<void> CheckIndices(DType index, const void* indices, int64_t n, int64_t bound);
// The same for n tuples of `width` indices against `bounds`.
Result<void> CheckTuples(DType index, const void* indices, int64_t n, int64_t width,
                         const int64_t* bounds);

}  // namespace parallax::ops
