#include "base/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace parallax {
namespace {

#if defined(__aarch64__)
using CompilerHalf = __fp16;  // GCC 12 has _Float16 for C only there
#elif defined(__FLT16_MAX__)
using CompilerHalf = _Float16;
#endif

#if defined(__aarch64__) || defined(__FLT16_MAX__)
// The compiler's own half is the second implementation, over all 65,536 values and the points
// halfway between neighbours, where rounding decides.
TEST(Half, AgreesWithTheCompilerOnEveryValue) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const float ours = HalfToFloat(bits);
    const float theirs = static_cast<float>(std::bit_cast<CompilerHalf>(bits));
    if (std::isnan(theirs)) {
      EXPECT_TRUE(std::isnan(ours));
      continue;
    }
    EXPECT_EQ(ours, theirs) << i;
    EXPECT_EQ(FloatToHalf(ours), bits);
    for (float factor : {1.0f - 0x1p-12f, 1.0f + 0x1p-11f, 1.0f + 0x1p-12f, 1.0f + 0x1.8p-11f}) {
      const float x = ours * factor;
      EXPECT_EQ(FloatToHalf(x), std::bit_cast<uint16_t>(static_cast<CompilerHalf>(x))) << x;
    }
  }
}
#endif

TEST(Half, Edges) {
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0);  // half of the least subnormal: ties to even
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 1);
  EXPECT_EQ(FloatToHalf(0x1.ffcp-15f), 0x400);  // rounds up into the least normal value
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::nanf("")))));
  // 2049 + a little: one rounding gives 2050, two (through f32) would give 2048.
  EXPECT_EQ(static_cast<float>(F16(2049.0 + 1e-9)), 2050.0f);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(BF16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BF16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);
  EXPECT_EQ(BF16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(static_cast<float>(BF16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BF16(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace parallax
