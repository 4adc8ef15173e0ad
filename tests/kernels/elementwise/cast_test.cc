// Cast: every pair of types, exhaustive f16, conversions that do not fit.
#include "kernels/elementwise/cast.h"

#include <cmath>
#include <vector>

#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                            DType::kU8,  DType::kI16, DType::kU16, DType::kI32,  DType::kU32,
                            DType::kI64, DType::kU64, DType::kBool};

// Small values that every type holds, through every pair, for all tails.
TEST(Cast, EveryPairKeepsSmallValues) {
  ForEachTarget([] {
    for (DType from : kTypes) {
      for (DType to : kTypes) {
        SCOPED_TRACE(std::string(Name(from)) + " to " + std::string(Name(to)));
        DispatchType(from, [&]<class From>() {
          DispatchType(to, [&]<class To>() {
            for (size_t n : {0, 1, 3, 15, 16, 17, 100, 1025}) {
              std::vector<unsigned char> in((n + 1) * sizeof(From));
              std::vector<unsigned char> out((n + 1) * sizeof(To), 0x5a);
              From* x = reinterpret_cast<From*>(in.data());
              for (size_t i = 0; i < n; ++i)
                x[i] = static_cast<From>(static_cast<int>(i * 7 % 100));
              CastSerial(from, to, x, out.data(), static_cast<int64_t>(n));
              const To* y = reinterpret_cast<const To*>(out.data());
              for (size_t i = 0; i < n; ++i) {
                double want = static_cast<double>(x[i]);
                if (std::is_same_v<To, bool>) want = want != 0;
                ASSERT_EQ(static_cast<double>(y[i]), want) << "n " << n << " i " << i;
              }
              ASSERT_EQ(out[n * sizeof(To)], 0x5a) << "wrote past " << n;
            }
          });
        });
      }
    }
  });
}

TEST(Cast, EveryHalfToF32) {
  ForEachTarget([] {
    std::vector<uint16_t> bits(65536);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    std::vector<float> got(bits.size());
    ToF32Block(DType::kF16, bits.data(), got.data(), 65536);
    std::vector<uint16_t> back(bits.size());
    FromF32Block(DType::kF16, got.data(), back.data(), 65536);
    std::vector<float> brain(bits.size());
    ToF32Block(DType::kBF16, bits.data(), brain.data(), 65536);
    for (size_t i = 0; i < bits.size(); ++i) {
      const float want = HalfToFloat(bits[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
        ASSERT_TRUE(std::isnan(HalfToFloat(back[i]))) << i;
      } else {
        ASSERT_TRUE(SameBits(got[i], want)) << i;
        ASSERT_EQ(back[i], bits[i]) << i;
      }
      BF16 b;
      b.bits = bits[i];
      const float brain_want = b;
      ASSERT_TRUE(SameBits(brain[i], brain_want) || std::isnan(brain_want)) << i;
    }
  });
}

// Rounding, ties, overflow, denormals: every 4999th float pattern and the neighbours of all ties.
TEST(Cast, F32ToHalvesRoundsOnce) {
  std::vector<float> x;
  for (uint64_t b = 0; b < 0x100000000u; b += 4999) {
    const uint32_t pattern = static_cast<uint32_t>(b);
    float v;
    std::memcpy(&v, &pattern, sizeof v);
    x.push_back(v);
  }
  for (uint32_t h = 0; h < 0x7c00; h += 3) {
    const double mid = (static_cast<double>(HalfToFloat(static_cast<uint16_t>(h))) +
                        static_cast<double>(HalfToFloat(static_cast<uint16_t>(h + 1)))) /
                       2;
    const float tie = static_cast<float>(mid);
    if (!std::isfinite(tie)) continue;
    for (float v : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e30f)}) {
      x.push_back(v);
      x.push_back(-v);
    }
  }
  for (float v : {65504.0f, 65519.99f, 65520.0f, 65536.0f, 0x1p-25f, 0x1.000002p-25f, 0x1p-24f}) {
    x.push_back(v);
    x.push_back(-v);
  }
  ForEachTarget([&] {
    std::vector<uint16_t> half(x.size());
    std::vector<uint16_t> brain(x.size());
    FromF32Block(DType::kF16, x.data(), half.data(), static_cast<int64_t>(x.size()));
    FromF32Block(DType::kBF16, x.data(), brain.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(HalfToFloat(half[i])));
        BF16 b;
        b.bits = brain[i];
        ASSERT_TRUE(std::isnan(static_cast<float>(b)));
        continue;
      }
      ASSERT_EQ(half[i], FloatToHalf(x[i])) << std::hexfloat << x[i];
      ASSERT_EQ(brain[i], BF16(x[i]).bits) << std::hexfloat << x[i];
    }
  });
}

template <class To, class From>
To One(From x) {
  To y;
  CastSerial(kDTypeOf<From>, kDTypeOf<To>, &x, &y, 1);
  return y;
}

TEST(Cast, FloatsThatDoNotFit) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  // What cvttss2si and truncation give on x86-64.
  EXPECT_EQ(One<int32_t>(3e9f), INT32_MIN);
  EXPECT_EQ(One<int32_t>(-3e9f), INT32_MIN);
  EXPECT_EQ(One<int32_t>(nan), INT32_MIN);
  EXPECT_EQ(One<int32_t>(-2147483648.0f), INT32_MIN);
  EXPECT_EQ(One<int32_t>(2147483520.0f), 2147483520);
  EXPECT_EQ(One<int32_t>(-2147483648.9), INT32_MIN);
  EXPECT_EQ(One<int32_t>(2147483647.9), INT32_MAX);
  EXPECT_EQ(One<int64_t>(inf), INT64_MIN);
  EXPECT_EQ(One<int64_t>(-1e30), INT64_MIN);
  EXPECT_EQ(One<uint8_t>(300.0f), 44);
  EXPECT_EQ(One<uint8_t>(-1.0f), 255);
  EXPECT_EQ(One<uint8_t>(3e9f), 0);
  EXPECT_EQ(One<int8_t>(200.7f), -56);
  EXPECT_EQ(One<int16_t>(nan), 0);
  EXPECT_EQ(One<uint32_t>(4294967296.0 + 5), 5u);
  EXPECT_EQ(One<uint32_t>(-1.0f), 0xffffffffu);
  EXPECT_EQ(One<uint32_t>(3e9f), 3000000000u);
  EXPECT_EQ(One<uint64_t>(0x1p63), uint64_t{1} << 63);
  EXPECT_EQ(One<uint64_t>(1.5 * 0x1p63), uint64_t{3} << 62);
  EXPECT_EQ(One<uint64_t>(0x1p64), UINT64_MAX);
  EXPECT_EQ(One<uint64_t>(-2.0), UINT64_MAX - 1);
  EXPECT_EQ(One<uint64_t>(nan), uint64_t{1} << 63);
}

TEST(Cast, Values) {
  EXPECT_EQ(One<int32_t>(-2.9f), -2);
  EXPECT_EQ(One<int8_t>(int32_t{-129}), 127);
  EXPECT_EQ(One<uint16_t>(int64_t{-1}), 65535);
  EXPECT_EQ(One<int64_t>(uint32_t{0xffffffff}), 4294967295);
  EXPECT_EQ(One<float>(uint64_t{0xffffffffffffffff}), 18446744073709551616.0f);
  EXPECT_EQ(One<float>(int32_t{16777217}), 16777216.0f);
  EXPECT_TRUE(One<bool>(0.5f));
  EXPECT_TRUE(One<bool>(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(One<bool>(-0.0f));
  EXPECT_TRUE(One<bool>(F16(0x1p-24f)));
  EXPECT_EQ(static_cast<float>(One<F16>(int64_t{70000})), std::numeric_limits<float>::infinity());
  // A tie of f16 that f32 would create by rounding first.
  EXPECT_EQ(One<F16>(1 + 0x1p-11 + 0x1p-40).bits, FloatToHalf(1 + 0x1p-10f));
  EXPECT_EQ(static_cast<float>(One<BF16>(3)), 3.0f);
  EXPECT_EQ(static_cast<float>(One<BF16>(F16(1.5f))), 1.5f);
}

TEST(Cast, Teams) {
  const size_t n = 50003;
  const std::vector<float> x = Normal(n, 4, 100);
  const std::vector<int16_t> y = RunTeams<int16_t>(n, [&](Team& team, int16_t* out) {
    Cast(DType::kF32, DType::kI16, x.data(), out, static_cast<int64_t>(n), team);
  });
  for (size_t i = 0; i < n; i += 997) EXPECT_EQ(y[i], static_cast<int16_t>(x[i]));
}

}  // namespace
}  // namespace parallax::kernels
