// Index tensors: typed access, with negative values counted from the end.
//
// Role:       shared by gathers and scatters.
// Threads:    pure.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace parallax::kernels {

// Calls f.operator()<I>() for kI32 or kI64.
template <class F>
void DispatchIndex(DType index, F&& f) {
  if (index == DType::kI32) return f.template operator()<int32_t>();
  f.template operator()<int64_t>();
}

template <class I>
int64_t Wrapped(I index, int64_t bound) {
  const int64_t i = index;
  return i < 0 ? i + bound : i;
}

// Flat offset, in blocks, of the tuple at `tuple` in an array of extents bounds[0 .. width - 1].
template <class I>
int64_t TupleOffset(const I* tuple, int64_t width, const int64_t* bounds) {
  int64_t offset = 0;
  for (int64_t k = 0; k < width; ++k) offset = offset * bounds[k] + Wrapped(tuple[k], bounds[k]);
  return offset;
}

}  // namespace parallax::kernels
