// Transposed copy of a small square: dst[j * dst_step + l] = src[l * src_step + j].
//
// Role:       the inner kernel of StridedCopy where source and destination run along different
// axes. Threads:    pure. Cost:       2- and 4-byte elements move as 16-byte vectors (8 x 8 and 4 x
// 4 blocks), which every
//             64-bit CPU has: no run-time dispatch.
#pragma once

#include <cstdint>
#include <cstring>

namespace parallax::kernels {

// Side of the square that StridedCopy hands over: one cache line of elements, so that every line of
// either side is used whole while it is in L1, even where a row step that is a power of two maps
// all rows to a few sets.
template <class T>
inline constexpr int64_t kTileSide = 64 / sizeof(T);

namespace tile_internal {

using V16 = uint16_t __attribute__((vector_size(16)));
using V32 = uint32_t __attribute__((vector_size(16)));

template <class V, class T>
inline V Load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class V, class T>
inline void Store(V v, T* p) {
  std::memcpy(p, &v, sizeof v);
}

inline void Block(const uint32_t* src, int64_t src_step, uint32_t* dst, int64_t dst_step) {
  const V32 a = Load<V32>(src);
  const V32 b = Load<V32>(src + src_step);
  const V32 c = Load<V32>(src + 2 * src_step);
  const V32 d = Load<V32>(src + 3 * src_step);
  const V32 ab_lo = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const V32 ab_hi = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const V32 cd_lo = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const V32 cd_hi = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  Store(__builtin_shufflevector(ab_lo, cd_lo, 0, 1, 4, 5), dst);
  Store(__builtin_shufflevector(ab_lo, cd_lo, 2, 3, 6, 7), dst + dst_step);
  Store(__builtin_shufflevector(ab_hi, cd_hi, 0, 1, 4, 5), dst + 2 * dst_step);
  Store(__builtin_shufflevector(ab_hi, cd_hi, 2, 3, 6, 7), dst + 3 * dst_step);
}

inline void Block(const uint16_t* src, int64_t src_step, uint16_t* dst, int64_t dst_step) {
  V16 r[8];
  V16 s[8];
  for (int i = 0; i < 8; ++i) r[i] = Load<V16>(src + i * src_step);
  // Three rounds of interleaving rows i and i + 4 transpose 8 x 8.
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      s[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; ++i) r[i] = s[i];
  }
  for (int i = 0; i < 8; ++i) Store(r[i], dst + i * dst_step);
}

}  // namespace tile_internal

// `rows` l's by `cols` j's.
template <class T>
void TransposeTile(const T* src, int64_t src_step, T* dst, int64_t dst_step, int64_t rows,
                   int64_t cols) {
  int64_t l = 0;
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    constexpr int64_t kBlock = 16 / sizeof(T);
    for (; l + kBlock <= rows; l += kBlock) {
      int64_t j = 0;
      for (; j + kBlock <= cols; j += kBlock) {
        tile_internal::Block(src + l * src_step + j, src_step, dst + j * dst_step + l, dst_step);
      }
      for (; j < cols; ++j) {
        for (int64_t k = 0; k < kBlock; ++k) {
          dst[j * dst_step + l + k] = src[(l + k) * src_step + j];
        }
      }
    }
  }
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t k = l; k < rows; ++k) dst[j * dst_step + k] = src[k * src_step + j];
  }
}

}  // namespace parallax::kernels
