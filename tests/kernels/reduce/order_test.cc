// ArgReduce, CumSum and TopK against plain loops.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reduce/arg_reduce.h"
#include "kernels/reduce/top_k.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

struct Lines {
  int64_t outer, axis, inner;
};

std::vector<Lines> Sizes() {
  return {{1, 1, 1},   {3, 7, 1}, {2, 100, 1}, {2, 5, 3},    {1, 9, 700},
          {3, 33, 17}, {0, 4, 2}, {2, 4, 0},   {40, 1000, 1}};
}

// a comes before b for the maximum (minimum), NaN first.
bool Better(ArgOp op, double a, double b) {
  if (std::isnan(b)) return false;
  if (std::isnan(a)) return true;
  return op == ArgOp::kMax ? a > b : a < b;
}

template <class T>
void CheckArg(bool with_nan) {
  for (const Lines& s : Sizes()) {
    const size_t n = static_cast<size_t>(s.outer * s.axis * s.inner);
    std::vector<T> x(n);
    const std::vector<int32_t> values = RandomValues<int32_t>(n, 5);  // few values: many ties
    for (size_t i = 0; i < n; ++i) {
      if constexpr (std::is_unsigned_v<T>) {
        x[i] = static_cast<T>(values[i] + 7);
      } else {
        x[i] = static_cast<T>(values[i]);
      }
      if (with_nan && i % 41 == 3) x[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    }
    for (ArgOp op : {ArgOp::kMax, ArgOp::kMin}) {
      for (Ties ties : {Ties::kFirst, Ties::kLast}) {
        const std::vector<int64_t> y = RunTeams<int64_t>(
            static_cast<size_t>(s.outer * s.inner), [&](Team& team, int64_t* out) {
              ArgReduce(op, ties, kDTypeOf<T>, s.outer, s.axis, s.inner, x.data(), out, team);
            });
        for (int64_t line = 0; line < s.outer * s.inner; ++line) {
          const int64_t base = line / s.inner * s.axis * s.inner + line % s.inner;
          int64_t best = 0;
          for (int64_t k = 1; k < s.axis; ++k) {
            const double v = static_cast<double>(x[static_cast<size_t>(base + k * s.inner)]);
            const double b = static_cast<double>(x[static_cast<size_t>(base + best * s.inner)]);
            if (Better(op, v, b) || (ties == Ties::kLast && !Better(op, b, v))) best = k;
          }
          ASSERT_EQ(y[static_cast<size_t>(line)], best)
              << Name(kDTypeOf<T>) << " axis " << s.axis << " inner " << s.inner;
        }
      }
    }
  }
}

TEST(ArgReduce, TiesAndNaN) {
  ForEachTarget([] {
    CheckArg<float>(false);
    CheckArg<float>(true);
  });
  CheckArg<double>(true);
  CheckArg<F16>(true);
  CheckArg<BF16>(false);
  CheckArg<int8_t>(false);
  CheckArg<uint8_t>(false);
  CheckArg<int32_t>(false);
  CheckArg<int64_t>(false);
}

TEST(ArgReduce, InfinitiesAndZeros) {
  ForEachTarget([] {
    const float inf = std::numeric_limits<float>::infinity();
    Team team(1);
    int64_t y = -1;
    const float x[3] = {-inf, -inf, -inf};
    ArgReduce(ArgOp::kMax, Ties::kFirst, DType::kF32, 1, 3, 1, x, &y, team);
    EXPECT_EQ(y, 0);
    const float z[3] = {-0.0f, 0.0f, -0.0f};
    ArgReduce(ArgOp::kMax, Ties::kFirst, DType::kF32, 1, 3, 1, z, &y, team);
    EXPECT_EQ(y, 0);
    ArgReduce(ArgOp::kMin, Ties::kLast, DType::kF32, 1, 3, 1, z, &y, team);
    EXPECT_EQ(y, 2);
  });
}

template <class T>
void CheckCumSum() {
  for (const Lines& s : Sizes()) {
    const size_t n = static_cast<size_t>(s.outer * s.axis * s.inner);
    const std::vector<T> x = RandomValues<T>(n, 6, !IsFloat(kDTypeOf<T>));
    for (CumSumEnd end : {CumSumEnd::kInclusive, CumSumEnd::kExclusive}) {
      for (CumSumOrder order : {CumSumOrder::kForward, CumSumOrder::kReverse}) {
        const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
          CumSum(kDTypeOf<T>, s.outer, s.axis, s.inner, x.data(), out, end, order, team);
        });
        std::vector<T> inplace = x;
        Team team(2);
        CumSum(kDTypeOf<T>, s.outer, s.axis, s.inner, inplace.data(), inplace.data(), end, order,
               team);
        if (n > 0) {
          ASSERT_EQ(std::memcmp(inplace.data(), y.data(), n * sizeof(T)), 0);
        }
        for (int64_t line = 0; line < s.outer * s.inner; ++line) {
          const int64_t base = line / s.inner * s.axis * s.inner + line % s.inner;
          uint64_t wrapped = 0;
          double sum = 0;
          double magnitude = 0;
          for (int64_t k = 0; k < s.axis; ++k) {
            const int64_t at = order == CumSumOrder::kForward ? k : s.axis - 1 - k;
            const size_t i = static_cast<size_t>(base + at * s.inner);
            const uint64_t wrapped_before = wrapped;
            const double before = sum;
            if constexpr (std::is_integral_v<T>) wrapped += static_cast<uint64_t>(x[i]);
            sum += static_cast<double>(x[i]);
            magnitude += std::fabs(static_cast<double>(x[i]));
            if constexpr (std::is_integral_v<T>) {
              ASSERT_EQ(y[i],
                        static_cast<T>(end == CumSumEnd::kExclusive ? wrapped_before : wrapped));
            } else {
              // One rounding to T; halves add one f32 rounding a step.
              const double unit = std::is_same_v<T, double>  ? 0x1p-53
                                  : std::is_same_v<T, float> ? 0x1p-24
                                  : std::is_same_v<T, F16>   ? 0x1p-11
                                                             : 0x1p-8;
              const double want = end == CumSumEnd::kExclusive ? before : sum;
              const bool half = sizeof(T) == 2;
              ASSERT_NEAR(static_cast<double>(y[i]), want,
                          unit * std::fabs(want) +
                              static_cast<double>(k + 1) * (half ? 0x1p-24 : 0x1p-53) * magnitude);
            }
          }
        }
      }
    }
  }
}

TEST(CumSum, EveryDirection) {
  CheckCumSum<float>();
  CheckCumSum<double>();
  CheckCumSum<F16>();
  CheckCumSum<BF16>();
  CheckCumSum<int8_t>();
  CheckCumSum<int32_t>();
  CheckCumSum<int64_t>();
  CheckCumSum<uint64_t>();
}

template <class T>
void CheckTopK() {
  for (const Lines& s : Sizes()) {
    const size_t n = static_cast<size_t>(s.outer * s.axis * s.inner);
    std::vector<T> x = RandomValues<T>(n, 8);
    if constexpr (IsFloat(kDTypeOf<T>)) {
      for (size_t i = 5; i < n; i += 37)
        x[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      for (size_t i = 6; i < n; i += 31) x[i] = static_cast<T>(-0.0f);
      for (size_t i = 7; i < n; i += 31) x[i] = static_cast<T>(0.0f);
    }
    for (int64_t k : {int64_t{0}, int64_t{1}, s.axis / 3, s.axis}) {
      for (TopKOrder order : {TopKOrder::kLargest, TopKOrder::kSmallest}) {
        const size_t m = static_cast<size_t>(s.outer * k * s.inner);
        std::vector<T> values;
        const std::vector<int64_t> indices = RunTeams<int64_t>(m, [&](Team& team, int64_t* out) {
          std::vector<std::byte> workspace(TopKWorkspaceBytes(k, team.size()));
          values.assign(m, T());
          TopK(order, kDTypeOf<T>, s.outer, s.axis, s.inner, k, x.data(), values.data(), out,
               workspace.data(), team);
        });
        for (int64_t line = 0; line < s.outer * s.inner; ++line) {
          const int64_t base = line / s.inner * s.axis * s.inner + line % s.inner;
          std::vector<int64_t> want(static_cast<size_t>(s.axis));
          std::iota(want.begin(), want.end(), 0);
          const auto at = [&](int64_t i) {
            return static_cast<double>(x[static_cast<size_t>(base + i * s.inner)]);
          };
          std::stable_sort(want.begin(), want.end(), [&](int64_t i, int64_t j) {
            const double a = at(order == TopKOrder::kLargest ? i : j);
            const double b = at(order == TopKOrder::kLargest ? j : i);
            return std::isnan(a) ? !std::isnan(b) : a > b;
          });
          for (int64_t r = 0; r < k; ++r) {
            const size_t to =
                static_cast<size_t>((line / s.inner * k + r) * s.inner + line % s.inner);
            ASSERT_EQ(indices[to], want[static_cast<size_t>(r)]) << "k " << k << " rank " << r;
            ASSERT_EQ(std::memcmp(&values[to],
                                  &x[static_cast<size_t>(base + indices[to] * s.inner)], sizeof(T)),
                      0);
          }
        }
      }
    }
  }
}

TEST(TopK, SortedStableNaNLargest) {
  CheckTopK<float>();
  CheckTopK<double>();
  CheckTopK<F16>();
  CheckTopK<int32_t>();
  CheckTopK<int64_t>();
  CheckTopK<uint8_t>();
}

TEST(TopK, LowerIndexFirstAndNullOutputs) {
  const float x[6] = {2, 5, 5, 1, 5, 5};
  int64_t index[3];
  int64_t workspace[3];
  Team team(1);
  TopK(TopKOrder::kLargest, DType::kF32, 1, 6, 1, 3, x, nullptr, index, workspace, team);
  EXPECT_EQ(std::vector<int64_t>(index, index + 3), (std::vector<int64_t>{1, 2, 4}));
  float values[3];
  TopK(TopKOrder::kSmallest, DType::kF32, 1, 6, 1, 3, x, values, nullptr, workspace, team);
  EXPECT_EQ(std::vector<float>(values, values + 3), (std::vector<float>{1, 2, 5}));
}

}  // namespace
}  // namespace parallax::kernels
