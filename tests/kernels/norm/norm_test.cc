// Softmax and every normalisation against f64 loops, all float types, targets and teams.
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/norm/channel_norm.h"
#include "kernels/norm/row_norm.h"
#include "kernels/norm/softmax.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

template <class T>
double Unit() {
  if (std::is_same_v<T, double>) return 0x1p-53;
  if (std::is_same_v<T, float>) return 0x1p-24;
  return std::is_same_v<T, F16> ? 0x1p-11 : 0x1p-8;
}
// Half the smallest denormal, which rounding a tiny result may cost.
template <class T>
double HalfStep() {
  if (std::is_same_v<T, double>) return 0;
  return std::is_same_v<T, F16> ? 0x1p-25 : 0x1p-134;
}
// The unit in which T's kernels compute.
template <class T>
double ComputeUnit() {
  return std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
}

// Calls f.operator()<T>() for each float type.
template <class F>
void ForFloats(F&& f) {
  f.template operator()<float>();
  f.template operator()<double>();
  f.template operator()<F16>();
  f.template operator()<BF16>();
}

template <class T>
std::vector<double> Widened(const std::vector<T>& v) {
  return std::vector<double>(v.begin(), v.end());
}

struct Lines {
  int64_t outer, axis, inner;
};

TEST(Softmax, EveryLayout) {
  const std::vector<Lines> sizes = {{1, 1, 1},     {3, 7, 1},    {5, 49, 1},  {2, 1000, 1},
                                    {1, 5000, 1},  {2, 5, 3},    {1, 9, 700}, {3, 33, 17},
                                    {2, 300, 260}, {1, 4500, 2}, {0, 4, 2},   {2, 4, 0},
                                    {2, 0, 3},     {200, 150, 1}};
  ForEachTarget([&] {
    ForFloats([&]<class T>() {
      for (const Lines& s : sizes) {
        const size_t n = static_cast<size_t>(s.outer * s.axis * s.inner);
        const std::vector<T> x = RandomValues<T>(n, 3);
        const std::vector<double> wide = Widened(x);
        for (SoftmaxKind kind : {SoftmaxKind::kSoftmax, SoftmaxKind::kLogSoftmax}) {
          const Shifted<T> in(x);
          const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
            Softmax(kind, kDTypeOf<T>, s.outer, s.axis, s.inner, in.data, out, team);
          });
          std::vector<T> inplace = x;
          Softmax(kind, kDTypeOf<T>, s.outer, s.axis, s.inner, inplace.data(), inplace.data(),
                  SharedTeam(2));
          if (n > 0) {
            ASSERT_EQ(std::memcmp(inplace.data(), y.data(), n * sizeof(T)), 0);
          }
          for (int64_t line = 0; line < s.outer * s.inner && s.axis > 0; ++line) {
            const size_t base =
                static_cast<size_t>(line / s.inner * s.axis * s.inner + line % s.inner);
            const size_t step = static_cast<size_t>(s.inner);
            double max = -1e300;
            for (size_t k = 0; k < static_cast<size_t>(s.axis); ++k) {
              max = std::max(max, wide[base + k * step]);
            }
            double sum = 0;
            for (size_t k = 0; k < static_cast<size_t>(s.axis); ++k) {
              sum += std::exp(wide[base + k * step] - max);
            }
            for (size_t k = 0; k < static_cast<size_t>(s.axis); ++k) {
              const double v = wide[base + k * step] - max;
              const double got = static_cast<double>(y[base + k * step]);
              // softmax.h, for one lane: the rounding of v enters the exponential, the sum has up
              // to 256 terms an accumulator, and exp, reciprocal and product round; then one
              // rounding to T.
              const double relative = (std::fabs(v) + 270) * ComputeUnit<T>();
              if (kind == SoftmaxKind::kSoftmax) {
                const double want = std::exp(v) / sum;
                ASSERT_NEAR(got, want, want * (relative + Unit<T>()) + HalfStep<T>())
                    << Name(kDTypeOf<T>) << " axis " << s.axis << " inner " << s.inner;
              } else {
                const double want = v - std::log(sum);
                ASSERT_NEAR(
                    got, want,
                    relative + std::fabs(want) * Unit<T>() * 2 + std::log(sum) * ComputeUnit<T>())
                    << Name(kDTypeOf<T>) << " axis " << s.axis << " inner " << s.inner;
              }
            }
          }
        }
      }
    });
  });
}

TEST(Softmax, ExtremeInputs) {
  ForEachTarget([] {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Team team(1);
    // The same line along memory and across it.
    for (int64_t inner : {1, 2}) {
      const auto run = [&](SoftmaxKind kind, const std::vector<float>& line) {
        const int64_t axis = static_cast<int64_t>(line.size());
        std::vector<float> x;
        for (float v : line) x.insert(x.end(), static_cast<size_t>(inner), v);
        Softmax(kind, DType::kF32, 1, axis, inner, x.data(), x.data(), team);
        std::vector<float> y;
        for (size_t i = 0; i < x.size(); i += static_cast<size_t>(inner)) y.push_back(x[i]);
        return y;
      };
      using V = std::vector<float>;
      EXPECT_EQ(run(SoftmaxKind::kSoftmax, {3e38f, 3e38f}), (V{0.5f, 0.5f}));
      EXPECT_EQ(run(SoftmaxKind::kSoftmax, {-inf, 1, -inf}), (V{0, 1, 0}));
      EXPECT_EQ(run(SoftmaxKind::kSoftmax, {0, -200}), (V{1, 0}));
      EXPECT_EQ(run(SoftmaxKind::kLogSoftmax, {0, -200}), (V{0, -200}));
      EXPECT_EQ(run(SoftmaxKind::kLogSoftmax, {1e4f, 1e4f})[1], -std::log(2.0f));
      EXPECT_EQ(run(SoftmaxKind::kLogSoftmax, {-inf, 1}), (V{-inf, 0}));
      for (SoftmaxKind kind : {SoftmaxKind::kSoftmax, SoftmaxKind::kLogSoftmax}) {
        for (const V& line : {V{nan, 1}, V{1, nan}, V{inf, 1}, V{-inf, -inf}}) {
          for (float v : run(kind, line)) EXPECT_TRUE(std::isnan(v));
        }
      }
    }
  });
}

// Statistics of a row, in f64.
struct Stats {
  double mean = 0, variance = 0, square = 0, magnitude = 0;
  Stats(const double* x, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      mean += x[i] / static_cast<double>(n);
      square += x[i] * x[i] / static_cast<double>(n);
      magnitude = std::max(magnitude, std::fabs(x[i]));
    }
    for (size_t i = 0; i < n; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
    }
  }
};

constexpr float kEpsilon = 1e-5f;
const double kEps = static_cast<double>(kEpsilon);

TEST(LayerNorm, StatisticsAndOptionalParts) {
  ForEachTarget([&] {
    ForFloats([&]<class T>() {
      using Stat = std::conditional_t<std::is_same_v<T, double>, double, float>;
      for (int64_t cols : {1, 2, 5, 16, 67, 384, 1025, 3000}) {
        const int64_t rows = cols > 1000 ? 9 : 60;
        const size_t n = static_cast<size_t>(rows * cols);
        const size_t width = static_cast<size_t>(cols);
        std::vector<T> x = RandomValues<T>(n, 4);
        for (T& v : x) v = static_cast<T>(static_cast<double>(v) + 3);  // a mean that matters
        const std::vector<T> scale = RandomValues<T>(width, 5);
        const std::vector<T> bias = RandomValues<T>(width, 6);
        const std::vector<double> wide = Widened(x);
        for (int parts = 0; parts < 4; ++parts) {
          const T* gain = (parts & 1) != 0 ? scale.data() : nullptr;
          const T* shift = (parts & 2) != 0 ? bias.data() : nullptr;
          std::vector<Stat> mean(static_cast<size_t>(rows));
          std::vector<Stat> inverse(mean.size());
          const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
            LayerNorm(kDTypeOf<T>, rows, cols, x.data(), gain, shift, kEpsilon, out, mean.data(),
                      inverse.data(), team);
          });
          for (size_t r = 0; r < mean.size(); ++r) {
            const Stats s(&wide[r * width], width);
            // The mean rounds once, off the exact one by at most 140 units of the largest value
            // (reduce.h); the variance by twice that relative to the spread.
            const double unit = ComputeUnit<T>();
            const double mean_error = 140 * unit * s.magnitude;
            ASSERT_NEAR(static_cast<double>(mean[r]), s.mean, mean_error);
            const double inv = 1 / std::sqrt(s.variance + kEps);
            const double relative = 150 * unit + mean_error * mean_error * inv * inv;
            ASSERT_NEAR(static_cast<double>(inverse[r]), inv, inv * relative);
            for (size_t c = 0; c < width; ++c) {
              const double z = (wide[r * width + c] - s.mean) * inv;
              const double g = gain != nullptr ? static_cast<double>(gain[c]) : 1;
              const double b = shift != nullptr ? static_cast<double>(shift[c]) : 0;
              const double want = z * g + b;
              const double tolerance =
                  std::fabs(g) * (mean_error * inv + std::fabs(z) * (relative + 4 * unit)) +
                  std::fabs(b) * unit + std::fabs(want) * 2 * Unit<T>() + HalfStep<T>();
              ASSERT_NEAR(static_cast<double>(y[r * width + c]), want, tolerance)
                  << Name(kDTypeOf<T>) << " cols " << cols << " parts " << parts;
            }
          }
          std::vector<T> inplace = x;
          LayerNorm(kDTypeOf<T>, rows, cols, inplace.data(), gain, shift, kEpsilon, inplace.data(),
                    nullptr, nullptr, SharedTeam(2));
          ASSERT_EQ(std::memcmp(inplace.data(), y.data(), n * sizeof(T)), 0);
        }
      }
    });
  });
}

// A variance that sum(x^2) - mean^2 in f32 gets entirely wrong.
TEST(LayerNorm, LargeMeanSmallSpread) {
  ForEachTarget([] {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 1000.0f + static_cast<float>(i % 2) * 0.125f;
    std::vector<float> y(256);
    LayerNorm(DType::kF32, 1, 256, x.data(), nullptr, nullptr, 0, y.data(), nullptr, nullptr,
              SharedTeam(1));
    for (size_t i = 0; i < x.size(); ++i) {
      // The mean is exact in f64; its rounding to f32 may move it by 2^-15 of a spread of 2^-4.
      EXPECT_NEAR(y[i], i % 2 == 0 ? -1 : 1, 0x1p-10);
    }
  });
}

TEST(RmsNorm, Rows) {
  ForEachTarget([&] {
    ForFloats([&]<class T>() {
      for (int64_t cols : {1, 7, 64, 1025}) {
        const int64_t rows = 33;
        const size_t width = static_cast<size_t>(cols);
        const size_t n = static_cast<size_t>(rows) * width;
        const std::vector<T> x = RandomValues<T>(n, 7);
        const std::vector<T> scale = RandomValues<T>(width, 8);
        const std::vector<double> wide = Widened(x);
        const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
          RmsNorm(kDTypeOf<T>, rows, cols, x.data(), scale.data(), kEpsilon, out, nullptr, team);
        });
        for (size_t i = 0; i < n; ++i) {
          const Stats s(&wide[i / width * width], width);
          const double want =
              wide[i] / std::sqrt(s.square + kEps) * static_cast<double>(scale[i % width]);
          ASSERT_NEAR(static_cast<double>(y[i]), want,
                      std::fabs(want) * (80 * ComputeUnit<T>() + Unit<T>()) + HalfStep<T>());
        }
      }
    });
  });
}

TEST(LpNormalize, EveryLayoutAndZeros) {
  ForEachTarget([&] {
    ForFloats([&]<class T>() {
      for (const Lines& s :
           {Lines{3, 7, 1}, Lines{2, 1000, 1}, Lines{2, 5, 3}, Lines{1, 300, 260}}) {
        for (int p : {1, 2}) {
          const size_t n = static_cast<size_t>(s.outer * s.axis * s.inner);
          std::vector<T> x = RandomValues<T>(n, 9);
          for (int64_t k = 0; k < s.axis; ++k) x[static_cast<size_t>(k * s.inner)] = T();
          const std::vector<double> wide = Widened(x);
          const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
            LpNormalize(kDTypeOf<T>, s.outer, s.axis, s.inner, p, x.data(), out, team);
          });
          for (int64_t line = 0; line < s.outer * s.inner; ++line) {
            const size_t base =
                static_cast<size_t>(line / s.inner * s.axis * s.inner + line % s.inner);
            double norm = 0;
            for (int64_t k = 0; k < s.axis; ++k) {
              const double v = wide[base + static_cast<size_t>(k * s.inner)];
              norm += p == 1 ? std::fabs(v) : v * v;
            }
            if (p == 2) norm = std::sqrt(norm);
            for (int64_t k = 0; k < s.axis; ++k) {
              const size_t i = base + static_cast<size_t>(k * s.inner);
              const double want = norm == 0 ? 0 : wide[i] / norm;
              ASSERT_NEAR(static_cast<double>(y[i]), want,
                          std::fabs(want) * (142 * ComputeUnit<T>() + Unit<T>()) + HalfStep<T>());
            }
          }
        }
      }
    });
  });
}

TEST(GroupNorm, GroupsAndInstances) {
  struct Row {
    int64_t batch, channels, spatial, groups;
  };
  ForEachTarget([&] {
    ForFloats([&]<class T>() {
      for (const Row& s : {Row{2, 6, 35, 3}, Row{1, 8, 1, 2}, Row{2, 4, 100, 4}, Row{1, 4, 3000, 1},
                           Row{3, 2, 0, 1}}) {
        const size_t n = static_cast<size_t>(s.batch * s.channels * s.spatial);
        const std::vector<T> x = RandomValues<T>(n, 10);
        const std::vector<T> scale = RandomValues<T>(static_cast<size_t>(s.channels), 11);
        const std::vector<T> bias = RandomValues<T>(static_cast<size_t>(s.channels), 12);
        const std::vector<double> wide = Widened(x);
        const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
          GroupNorm(kDTypeOf<T>, s.batch, s.channels, s.spatial, s.groups, x.data(), scale.data(),
                    bias.data(), kEpsilon, out, team);
        });
        const size_t row = static_cast<size_t>(s.channels / s.groups * s.spatial);
        for (size_t i = 0; i < n; ++i) {
          const Stats stats(&wide[i / row * row], row);
          const size_t c = i / static_cast<size_t>(s.spatial) % static_cast<size_t>(s.channels);
          const double inv = 1 / std::sqrt(stats.variance + kEps);
          const double g = static_cast<double>(scale[c]);
          const double b = static_cast<double>(bias[c]);
          const double z = (wide[i] - stats.mean) * inv;
          const double unit = ComputeUnit<T>();
          const double mean_error = 140 * unit * stats.magnitude;
          ASSERT_NEAR(static_cast<double>(y[i]), z * g + b,
                      std::fabs(g) * (mean_error * inv + std::fabs(z) * 160 * unit) +
                          std::fabs(b) * unit + std::fabs(z * g + b) * 2 * Unit<T>() +
                          HalfStep<T>());
        }
      }
    });
  });
}

TEST(BatchNorm, MixedTypes) {
  ForEachTarget([&] {
    ForFloats([&]<class T>() {
      for (const auto& s : std::vector<std::array<int64_t, 3>>{
               {2, 5, 49}, {1, 3, 1}, {3, 300, 1}, {2, 2, 20000}, {2, 3, 0}}) {
        const int64_t channels = s[1];
        const size_t n = static_cast<size_t>(s[0] * channels * s[2]);
        const std::vector<T> x = RandomValues<T>(n, 13);
        const std::vector<T> scale = RandomValues<T>(static_cast<size_t>(channels), 14);
        const std::vector<T> bias = RandomValues<T>(static_cast<size_t>(channels), 15);
        const std::vector<float> mean = RandomValues<float>(static_cast<size_t>(channels), 16);
        std::vector<float> var = RandomValues<float>(static_cast<size_t>(channels), 17);
        for (float& v : var) v = v * v + 0.1f;
        const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
          BatchNorm(kDTypeOf<T>, kDTypeOf<T>, DType::kF32, s[0], channels, s[2], x.data(),
                    scale.data(), bias.data(), mean.data(), var.data(), kEpsilon, out, team);
        });
        for (size_t i = 0; i < n; ++i) {
          const size_t c = i / static_cast<size_t>(s[2]) % static_cast<size_t>(channels);
          const double g =
              static_cast<double>(scale[c]) / std::sqrt(static_cast<double>(var[c]) + kEps);
          const double t = static_cast<double>(bias[c]) - static_cast<double>(mean[c]) * g;
          const double v = static_cast<double>(x[i]);
          ASSERT_NEAR(static_cast<double>(y[i]), v * g + t,
                      (std::fabs(v * g) + std::fabs(t)) * 3 * ComputeUnit<T>() +
                          std::fabs(v * g + t) * Unit<T>() + HalfStep<T>());
        }
      }
    });
  });
}

TEST(Lrn, WindowsCutAtTheEnds) {
  ForFloats([&]<class T>() {
    for (int64_t size : {1, 2, 3, 4, 5, 9}) {
      for (float beta : {0.75f, 0.5f}) {
        const int64_t channels = 6;
        const int64_t spatial = 300;
        const size_t n = static_cast<size_t>(2 * channels * spatial);
        const std::vector<T> x = RandomValues<T>(n, 18);
        const std::vector<T> y = RunTeams<T>(n, [&](Team& team, T* out) {
          Lrn(kDTypeOf<T>, 2, channels, spatial, size, 0.1f, beta, 1.5f, x.data(), out, team);
        });
        for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
          const int64_t c = i / spatial % channels;
          double sum = 0;
          for (int64_t j = std::max<int64_t>(0, c - (size - 1) / 2);
               j <= std::min(channels - 1, c + (size - 1) - (size - 1) / 2); ++j) {
            const double v = static_cast<double>(x[static_cast<size_t>(i + (j - c) * spatial)]);
            sum += v * v;
          }
          const double base = 1.5 + static_cast<double>(0.1f) / static_cast<double>(size) * sum;
          const double want = static_cast<double>(x[static_cast<size_t>(i)]) /
                              std::pow(base, static_cast<double>(beta));
          // Up to nine squares, a scale, a sum, a power and a product.
          ASSERT_NEAR(static_cast<double>(y[static_cast<size_t>(i)]), want,
                      std::fabs(want) * (20 * ComputeUnit<T>() + Unit<T>()) + HalfStep<T>());
        }
      }
    }
  });
}

}  // namespace
}  // namespace parallax::kernels
