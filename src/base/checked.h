// Size arithmetic that says when it overflows instead of wrapping.
//
// Role:       every element or byte count that comes from a model or a caller goes through here.
// Threads:    pure.
#pragma once

#include <cstdint>
#include <optional>

namespace parallax {

// a*b and a+b in int64, or nothing when the result does not fit.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// ceil(a / b) for a >= 0, b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
// The least multiple of `unit` that is >= a, for a >= 0.
constexpr int64_t RoundUp(int64_t a, int64_t unit) { return CeilDiv(a, unit) * unit; }

}  // namespace parallax
