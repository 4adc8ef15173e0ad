#include "ops/core/index_check.h"

namespace parallax::ops {
namespace {

int64_t ValueAt(DType index, const void* indices, int64_t i) {
  return index == DType::kI32 ? static_cast<const int32_t*>(indices)[i]
                              : static_cast<const int64_t*>(indices)[i];
}

Error Outside(DType index, const void* indices, int64_t position, int64_t bound) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "index {} (at position {}) is outside an axis of {}",
                   ValueAt(index, indices, position), position, bound);
}

}  // namespace

Result<void> CheckIndices(DType index, const void* indices, int64_t n, int64_t bound) {
  const int64_t bad = kernels::FirstBadIndex(index, indices, n, bound);
  if (bad < 0) return {};
  return Outside(index, indices, bad, bound);
}

Result<void> CheckTuples(DType index, const void* indices, int64_t n, int64_t width,
                         const int64_t* bounds) {
  const int64_t bad = kernels::FirstBadTuple(index, indices, n, width, bounds);
  if (bad < 0) return {};
  return Outside(index, indices, bad, bounds[bad % width]);
}

}  // namespace parallax::ops
