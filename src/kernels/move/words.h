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

// n contiguous elements. Short runs, common in transposes and between channels of an image, are not
// worth a call: they go by blocks of known size, the last of which overlaps the one before.
template <class T>
void CopyRun(const T* src, T* dst, int64_t n) {
  constexpr int64_t kBlock = 32 / sizeof(T);
  if (n > 16 * kBlock) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else if (n >= kBlock) {
    for (int64_t i = 0; i + kBlock < n; i += kBlock) std::memcpy(dst + i, src + i, 32);
    std::memcpy(dst + n - kBlock, src + n - kBlock, 32);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
  }
}

}  // namespace parallax::kernels
