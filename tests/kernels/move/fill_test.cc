// Fill, Range, EyeLike, OneHot, Trilu, ReverseSequence, NonZero.
#include "kernels/move/fill.h"

#include <cmath>
#include <vector>

#include "kernels/move/nonzero.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

TEST(Fill, EverySize) {
  for (size_t n : {0, 1, 17, 40000}) {
    const double value = 3.25;
    const std::vector<double> y = RunTeams<double>(
        n, [&](Team& team, double* out) { Fill(8, &value, out, static_cast<int64_t>(n), team); });
    for (double v : y) ASSERT_EQ(v, 3.25);
    const std::vector<uint16_t> z = RunTeams<uint16_t>(n, [&](Team& team, uint16_t* out) {
      Fill(2, nullptr, out, static_cast<int64_t>(n), team);
    });
    for (uint16_t v : z) ASSERT_EQ(v, 0);
  }
}

template <class T>
int64_t Count(T start, T limit, T delta) {
  return RangeCount(kDTypeOf<T>, &start, &limit, &delta);
}

TEST(Range, Counts) {
  EXPECT_EQ(Count<int64_t>(0, 10, 3), 4);
  EXPECT_EQ(Count<int64_t>(10, 0, -3), 4);
  EXPECT_EQ(Count<int64_t>(10, 0, 3), 0);
  EXPECT_EQ(Count<int64_t>(0, 9, 3), 3);
  EXPECT_EQ(Count<int64_t>(0, 9, 0), -1);
  EXPECT_EQ(Count<int64_t>(INT64_MIN, INT64_MAX, INT64_MAX), 3);
  EXPECT_EQ(Count<int64_t>(INT64_MIN, INT64_MAX, 1), -1);  // 2^64 - 1 elements
  EXPECT_EQ(Count<int64_t>(5, INT64_MIN, INT64_MIN), 2);
  EXPECT_EQ(Count<int16_t>(-3, 3, 2), 3);
  EXPECT_EQ(Count<float>(1, 5, 2), 2);
  EXPECT_EQ(Count<float>(0, 1, 0.1f), 10);
  EXPECT_EQ(Count<double>(1, 0, -0.3), 4);
  EXPECT_EQ(Count<float>(0, 1, 0), -1);
  EXPECT_EQ(Count<float>(0, std::numeric_limits<float>::quiet_NaN(), 1), -1);
  EXPECT_EQ(Count<float>(0, std::numeric_limits<float>::infinity(), 1), -1);
  EXPECT_EQ(Count<float>(0, -1, 1), 0);
}

TEST(Range, Values) {
  const int32_t start = 10;
  const int32_t delta = -3;
  int32_t y[4];
  Range(DType::kI32, &start, &delta, 4, y);
  EXPECT_EQ(std::vector<int32_t>(y, y + 4), (std::vector<int32_t>{10, 7, 4, 1}));
  const float s = 0.1f;
  const float d = 0.1f;
  std::vector<float> f(1000);
  Range(DType::kF32, &s, &d, 1000, f.data());
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(f[i], static_cast<float>(static_cast<double>(s) +
                                       static_cast<double>(i) * static_cast<double>(d)));
  }
  const F16 h(0.5f);
  F16 z[3];
  Range(DType::kF16, &h, &h, 3, z);
  EXPECT_EQ(static_cast<float>(z[2]), 1.5f);
}

TEST(EyeLike, Diagonals) {
  for (int64_t k : {INT64_MIN, int64_t{-9}, int64_t{-2}, int64_t{0}, int64_t{1}, int64_t{3},
                    int64_t{4}, INT64_MAX}) {
    float y[12];
    EyeLike(DType::kF32, 3, 4, k, y);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(y[r * 4 + c], c - r == k ? 1.0f : 0.0f) << k;
    }
  }
  F16 h[4];
  EyeLike(DType::kF16, 2, 2, 0, h);
  EXPECT_EQ(static_cast<float>(h[3]), 1.0f);
  bool b[4];
  EyeLike(DType::kBool, 2, 2, 0, b);
  EXPECT_TRUE(b[0] && !b[1]);
}

TEST(OneHot, AxesAndBadIndices) {
  const float off = -1;
  const float on = 5;
  const std::vector<int64_t> idx = {0, 2, -1, 7, -4, 1};  // [2, 3]: 7 and -4 name nothing
  const std::vector<float> y = RunTeams<float>(2 * 3 * 3, [&](Team& team, float* out) {
    OneHot(4, 2, 3, 3, DType::kI64, idx.data(), &off, &on, out, team);
  });
  for (int64_t o = 0; o < 2; ++o) {
    for (int64_t k = 0; k < 3; ++k) {
      for (int64_t i = 0; i < 3; ++i) {
        const int64_t at = idx[static_cast<size_t>(o * 3 + i)];
        const bool hot = at == k || at + 3 == k;
        EXPECT_EQ(y[static_cast<size_t>((o * 3 + k) * 3 + i)], hot ? on : off);
      }
    }
  }
  const float fidx[2] = {1.9f, -1.0f};
  const int32_t zero = 0;
  const int32_t one = 1;
  int32_t z[4];
  Team team(1);
  OneHot(4, 2, 2, 1, DType::kF32, fidx, &zero, &one, z, team);
  EXPECT_EQ(std::vector<int32_t>(z, z + 4), (std::vector<int32_t>{0, 1, 0, 1}));
}

TEST(Trilu, EveryDiagonal) {
  const std::vector<int64_t> x = RandomValues<int64_t>(2 * 4 * 5, 3, true);
  for (int64_t k :
       {INT64_MIN, int64_t{-5}, int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{9}, INT64_MAX}) {
    for (Triangle t : {Triangle::kLower, Triangle::kUpper}) {
      const std::vector<int64_t> y = RunTeams<int64_t>(
          40, [&](Team& team, int64_t* out) { Trilu(t, 8, 2, 4, 5, k, x.data(), out, team); });
      std::vector<int64_t> inplace = x;
      Team team(1);
      Trilu(t, 8, 2, 4, 5, k, inplace.data(), inplace.data(), team);
      EXPECT_EQ(inplace, y);
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t r = i / 5 % 4;
        const int64_t c = i % 5;
        const bool keep = t == Triangle::kUpper ? c - r >= k : c - r <= k;
        EXPECT_EQ(y[static_cast<size_t>(i)], keep ? x[static_cast<size_t>(i)] : 0)
            << k << " at " << i;
      }
    }
  }
}

TEST(ReverseSequence, BothLayouts) {
  const std::vector<int64_t> lengths = {0, 1, 3, 4};
  const std::vector<uint32_t> x = RandomValues<uint32_t>(4 * 4 * 6, 3, true);
  for (BatchAxis axis : {BatchAxis::kFirst, BatchAxis::kSecond}) {
    const std::vector<uint32_t> y = RunTeams<uint32_t>(96, [&](Team& team, uint32_t* out) {
      ReverseSequence(4, axis, 4, 4, 6, lengths.data(), x.data(), out, team);
    });
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t t = 0; t < 4; ++t) {
        const int64_t n = lengths[static_cast<size_t>(b)];
        const int64_t s = t < n ? n - 1 - t : t;
        for (int64_t i = 0; i < 6; ++i) {
          const auto flat = [&](int64_t time) {
            return static_cast<size_t>(
                (axis == BatchAxis::kFirst ? b * 4 + time : time * 4 + b) * 6 + i);
          };
          ASSERT_EQ(y[flat(t)], x[flat(s)]);
        }
      }
    }
  }
}

TEST(NonZero, CoordinatesInOrder) {
  Team team(3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float x[12] = {0, 1, -0.0f, nan, 0, 0, 5, 0, 0, 0, 0, 2};
  const int64_t n = CountNonZero(DType::kF32, x, 12, team);
  ASSERT_EQ(n, 4);
  std::vector<int64_t> at(12, -1);
  NonZero(DType::kF32, {2, 3, 2}, x, n, at.data());
  EXPECT_EQ(at, (std::vector<int64_t>{0, 0, 1, 1, 0, 1, 0, 2, 1, 1, 0, 1}));
  const bool s = true;
  EXPECT_EQ(CountNonZero(DType::kBool, &s, 1, team), 1);
  NonZero(DType::kBool, {}, &s, 1, nullptr);
  EXPECT_EQ(CountNonZero(DType::kI64, nullptr, 0, team), 0);
  NonZero(DType::kI64, {0, 3}, nullptr, 0, nullptr);
  const std::vector<int8_t> big = RandomValues<int8_t>(50000, 3);
  int64_t want = 0;
  for (int8_t v : big) want += v != 0;
  EXPECT_EQ(CountNonZero(DType::kI8, big.data(), 50000, team), want);
  std::vector<int64_t> places(static_cast<size_t>(2 * want));
  NonZero(DType::kI8, {50, 1000}, big.data(), want, places.data());
  int64_t k = 0;
  for (int64_t i = 0; i < 50000; ++i) {
    if (big[static_cast<size_t>(i)] == 0) continue;
    ASSERT_EQ(places[static_cast<size_t>(k)], i / 1000);
    ASSERT_EQ(places[static_cast<size_t>(want + k)], i % 1000);
    ++k;
  }
}

}  // namespace
}  // namespace parallax::kernels
