// F16 and BF16: 16-bit floating-point storage types, converted to and from f32 by value.
//
// Role:       element types of tensors; arithmetic on them is done in f32 (kernels, ops).
// Threads:    pure.
// Cost:       about 10 integer operations a conversion; bulk conversions live in kernels.
// Invariants: conversions from f32 round to nearest, ties to even; NaN stays NaN, infinities
//             stay infinite, values past the range become infinite (IEEE 754).
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace parallax {

float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
// From f64 in one rounding: going through f32 would round twice.
uint16_t DoubleToHalf(double value);

struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float v) : bits(FloatToHalf(v)) {}
  explicit F16(double v) : bits(DoubleToHalf(v)) {}
  template <class I>
  requires(std::is_integral_v<I>) explicit F16(I v) : bits(DoubleToHalf(static_cast<double>(v))) {}
  operator float() const { return HalfToFloat(bits); }  // NOLINT: implicit widening is exact
};

struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float v) {
    uint32_t u = std::bit_cast<uint32_t>(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);  // keep a NaN quiet and not infinite
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit BF16(double v) : BF16(static_cast<float>(v)) {}
  template <class I>
  requires(std::is_integral_v<I>) explicit BF16(I v) : BF16(static_cast<float>(v)) {}
  operator float() const {  // NOLINT: implicit widening is exact
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

static_assert(sizeof(F16) == 2 && sizeof(BF16) == 2);

}  // namespace parallax
