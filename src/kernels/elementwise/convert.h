// Convert<To>(from): one value, by the rules of cast.h.
//
// Role:       the single definition of those rules, for kernels that convert element by element.
// Threads:    pure.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace parallax::kernels {

// What the conversion instruction of x86-64 gives: the lowest value where x does not fit.
// REQUIRES: I is int32_t or int64_t.
template <class I, class F>
I TruncateToSigned(F x) {
  constexpr F kBound = static_cast<F>(sizeof(I) == 4 ? 0x1p31 : 0x1p63);
  if constexpr (sizeof(I) == 4 && sizeof(F) == 8) {
    // In f64 there are values between -2^31 - 1 and -2^31 that truncate into range.
    if (x > -kBound - 1 && x < kBound) return static_cast<I>(x);
  } else {
    if (x >= -kBound && x < kBound) return static_cast<I>(x);
  }
  return std::numeric_limits<I>::lowest();
}

template <class To, class From>
To Convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (std::is_same_v<To, int64_t> || std::is_same_v<To, int32_t>) {
      return TruncateToSigned<To>(x);
    } else if constexpr (std::is_same_v<To, uint32_t>) {
      return static_cast<To>(TruncateToSigned<int64_t>(x));
    } else if constexpr (std::is_same_v<To, uint64_t>) {
      constexpr From kHalf = static_cast<From>(0x1p63);
      if (!(x >= kHalf)) return static_cast<To>(TruncateToSigned<int64_t>(x));
      if (!(x < 2 * kHalf)) return std::numeric_limits<To>::max();
      return static_cast<To>(static_cast<int64_t>(x - kHalf)) + (uint64_t{1} << 63);
    } else {
      return static_cast<To>(TruncateToSigned<int32_t>(x));
    }
  } else {
    return static_cast<To>(x);  // integers keep the low bits; floats round to nearest
  }
}

}  // namespace parallax::kernels
