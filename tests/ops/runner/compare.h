// Comparison of tensors within a tolerance.
#pragma once

#include <cmath>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "ir/tensor.h"

namespace parallax::testing {

// Half a unit in the last place of 1.0, the unit errors are counted in.
inline double UnitRoundoff(DType d) {
  switch (d) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

// |a - b| <= tolerance * (|b| + scale), where scale is the largest finite magnitude of the expected
// tensor: an element that is small only through cancellation is judged by what was cancelled.
// Integers and bools must be equal. Empty when they agree, else what differs first.
inline std::string Difference(const Tensor& found, const Tensor& expected, double tolerance) {
  if (found.dtype() != expected.dtype() || !(found.shape() == expected.shape())) {
    return fmt::format("found {}{}, expected {}{}", Name(found.dtype()), found.shape().ToString(),
                       Name(expected.dtype()), expected.shape().ToString());
  }
  std::string difference;
  DispatchType(found.dtype(), [&]<class T>() {
    const T* a = found.data<T>();
    const T* b = expected.data<T>();
    double scale = 0;
    if constexpr (!std::is_integral_v<T>) {
      for (int64_t i = 0; i < expected.elements(); ++i) {
        const double v = std::fabs(static_cast<double>(b[i]));
        if (std::isfinite(v)) scale = std::max(scale, v);
      }
    }
    for (int64_t i = 0; i < found.elements() && difference.empty(); ++i) {
      bool same = false;
      if constexpr (std::is_integral_v<T>) {
        same = a[i] == b[i];
      } else {
        const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        same = x == y || (std::isnan(x) && std::isnan(y)) ||
               std::fabs(x - y) <= tolerance * (std::fabs(y) + scale);
      }
      if (!same) {
        difference = fmt::format("element {}: found {}, expected {}", i, static_cast<double>(a[i]),
                                 static_cast<double>(b[i]));
      }
    }
  });
  return difference;
}

inline bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.bytes_begin(), b.bytes_begin(), a.bytes()) == 0);
}

}  // namespace parallax::testing
