// Dispatch from an element size to an unsigned type of that size.
//
// Role:       shared by the kernels that move raw memory.
// Threads:    pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace parallax::kernels {

// Calls f.operator()<T>() for T of 1, 2, 4 or 8 bytes.
template <class F>
void DispatchSize(size_t elem_size, F&& f) {
  switch (elem_size) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

// n contiguous elements. Short runs, common in transposes, are not worth a call.
template <class T>
void CopyRun(const T* src, T* dst, int64_t n) {
  if (n >= static_cast<int64_t>(32 / sizeof(T))) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
  }
}

}  // namespace parallax::kernels
