#include "kernels/subnormals.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace parallax::kernels {
namespace {

uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }

TEST(Subnormals, BecomeZerosOfTheirSignAndNothingElseChanges) {
  const float least = std::numeric_limits<float>::min();
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float below = std::bit_cast<float>(Bits(least) - 1);
  const std::vector<float> in = {0.0f,
                                 -0.0f,
                                 tiny,
                                 -tiny,
                                 below,
                                 -below,
                                 least,
                                 -least,
                                 1.0f,
                                 -2.5f,
                                 std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> out = in;
  FlushSubnormals(out.data(), static_cast<int64_t>(out.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    const bool subnormal = i >= 2 && i <= 5;
    const uint32_t want = subnormal ? Bits(in[i] < 0 ? -0.0f : 0.0f) : Bits(in[i]);
    EXPECT_EQ(Bits(out[i]), want) << i;
  }
  EXPECT_TRUE(std::signbit(out[3]));
}

// Wherever they lie among many.
TEST(Subnormals, AreFoundAnywhere) {
  for (const size_t n : {1u, 1023u, 1024u, 1025u, 3000u}) {
    for (size_t at = 0; at < n; at += 1 + n / 50) {
      std::vector<float> x(n, 1.5f);
      x[at] = 1e-40f;
      FlushSubnormals(x.data(), static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(x[i], i == at ? 0.0f : 1.5f);
    }
  }
  FlushSubnormals(nullptr, 0);
}

}  // namespace
}  // namespace parallax::kernels
