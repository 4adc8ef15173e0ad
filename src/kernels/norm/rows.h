// Sums and scaling of one contiguous row of any float type.
//
// Role:       shared by row_norm.cc and channel_norm.cc: f32 goes to SIMD, f16 and bf16 there in
//             blocks, f64 through plain loops.
// Threads:    pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/split.h"
#include "kernels/norm/norm_f32.h"
#include "kernels/reduce/reduce_f32.h"

namespace parallax::kernels {

// The type in which T computes.
template <class T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// f(block, i, count) for pieces of a half row as f32.
template <class Half, class F>
void ForHalfBlocks(const Half* x, int64_t n, F&& f) {
  float block[kHalfBlock];
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t count = std::min(kHalfBlock, n - i);
    ToF32Block(kDTypeOf<Half>, x + i, block, count);
    f(block, i, count);
  }
}

// sum of term(x[i] - shift).
template <class T>
double RowSum(SumTerm term, const T* x, int64_t n, ComputeOf<T> shift = 0) {
  if constexpr (std::is_same_v<T, float>) {
    return SumF32(term, x, n, shift);
  } else if constexpr (std::is_same_v<T, double>) {
    double part[4] = {};
    for (int64_t i = 0; i < n; ++i) {
      const double v = x[i] - shift;
      part[i & 3] += term == SumTerm::kSquare ? v * v : term == SumTerm::kAbs ? std::abs(v) : v;
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
  } else {
    double sum = 0;
    ForHalfBlocks(x, n, [&](const float* block, int64_t, int64_t count) {
      sum += SumF32(term, block, count, shift);
    });
    return sum;
  }
}

// Mean of a row, rounded to the computing type, and the mean square distance from that value.
template <class T>
struct RowStats {
  ComputeOf<T> mean = 0;
  double variance = 0;

  RowStats(const T* x, int64_t n) {
    mean = static_cast<ComputeOf<T>>(RowSum(SumTerm::kValue, x, n) / static_cast<double>(n));
    variance = RowSum(SumTerm::kSquare, x, n, mean) / static_cast<double>(n);
  }
};

// out[i] = (x[i] - shift) * scale * gain[i] + bias[i]; gain and bias may be null.
template <class T>
void NormalizeRow(const T* x, T* out, int64_t n, ComputeOf<T> shift, ComputeOf<T> scale,
                  const T* gain, const T* bias) {
  if constexpr (std::is_same_v<T, float>) {
    NormalizeF32(x, out, n, shift, scale, gain, bias);
  } else if constexpr (std::is_same_v<T, double>) {
    for (int64_t i = 0; i < n; ++i) {
      const double v = (x[i] - shift) * scale * (gain != nullptr ? gain[i] : 1);
      out[i] = v + (bias != nullptr ? bias[i] : 0);
    }
  } else {
    ForHalfBlocks(x, n, [&](float* block, int64_t i, int64_t count) {
      float g[kHalfBlock];
      float b[kHalfBlock];
      if (gain != nullptr) ToF32Block(kDTypeOf<T>, gain + i, g, count);
      if (bias != nullptr) ToF32Block(kDTypeOf<T>, bias + i, b, count);
      NormalizeF32(block, block, count, shift, scale, gain != nullptr ? g : nullptr,
                   bias != nullptr ? b : nullptr);
      FromF32Block(kDTypeOf<T>, block, out + i, count);
    });
  }
}

// out[i] = (x[i] - shift) * scale + offset.
template <class T>
void AffineRow(const T* x, T* out, int64_t n, ComputeOf<T> shift, ComputeOf<T> scale,
               ComputeOf<T> offset) {
  if constexpr (std::is_same_v<T, float>) {
    AffineF32(x, out, n, shift, scale, offset);
  } else if constexpr (std::is_same_v<T, double>) {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - shift) * scale + offset;
  } else {
    ForHalfBlocks(x, n, [&](float* block, int64_t i, int64_t count) {
      AffineF32(block, block, count, shift, scale, offset);
      FromF32Block(kDTypeOf<T>, block, out + i, count);
    });
  }
}

// Calls f.operator()<T>() for the float types.
template <class F>
void DispatchFloat(DType dtype, F&& f) {
  DispatchType(dtype, [&]<class T>() {
    if constexpr (IsFloat(kDTypeOf<T>)) f.template operator()<T>();
  });
}

}  // namespace parallax::kernels
