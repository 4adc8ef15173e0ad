#include "base/half.h"

#include <cmath>

namespace parallax {

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero and subnormals: mantissa * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

namespace {

// Rounds |value| (finite, f64) to f16 bits without sign: scale so that one unit is the last place
// of the result's binade, let nearbyint round to even, then put the pieces together. A carry out
// of the mantissa moves into the exponent by itself, up to infinity.
uint16_t RoundMagnitude(double magnitude) {
  if (magnitude >= 65520.0) return 0x7c00u;  // halfway past the largest finite value and above
  if (magnitude < 0x1p-14) return static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24));
  const int exponent = std::ilogb(magnitude);
  const double scaled = std::nearbyint(std::ldexp(magnitude, 10 - exponent));  // 1024..2048
  return static_cast<uint16_t>(((exponent + 15) << 10) + (static_cast<int>(scaled) - 1024));
}

}  // namespace

uint16_t DoubleToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00u);
  return static_cast<uint16_t>(sign | RoundMagnitude(std::fabs(value)));
}

uint16_t FloatToHalf(float value) { return DoubleToHalf(static_cast<double>(value)); }

}  // namespace parallax
