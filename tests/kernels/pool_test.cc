#include "kernels/pool/pool.h"

#include <limits>
#include <string>
#include <vector>

#include "base/half.h"
#include "kernels/pool/generic_pool.h"
#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {
namespace {

using testing::ForEachTarget;
using testing::GuardedBytes;
using testing::RandomFloats;
using testing::Sum;
using testing::TeamOf;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Axis {
  int64_t in, kernel, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  bool ceil = false;
};

PoolShape Shape(int64_t batch, int64_t channels, std::vector<Axis> axes) {
  PoolShape s{.batch = batch, .channels = channels};
  s.rank = static_cast<int>(axes.size());
  for (int i = 0; i < s.rank; ++i) {
    const Axis& a = axes[static_cast<size_t>(i)];
    s.in[i] = a.in;
    s.kernel[i] = a.kernel;
    s.strides[i] = a.stride;
    s.dilations[i] = a.dilation;
    s.pads_begin[i] = a.pad_begin;
    s.pads_end[i] = a.pad_end;
    const int64_t span = a.in + a.pad_begin + a.pad_end - ((a.kernel - 1) * a.dilation + 1);
    s.out[i] = span < 0 ? 0 : (span + (a.ceil ? a.stride - 1 : 0)) / a.stride + 1;
  }
  return s;
}

int64_t Product(const int64_t* extents, int rank) {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= extents[i];
  return n;
}

std::vector<int64_t> Coordinates(int64_t at, const int64_t* extents, int rank) {
  std::vector<int64_t> c(static_cast<size_t>(rank));
  for (int i = rank - 1; i >= 0; --i) {
    c[static_cast<size_t>(i)] = at % extents[i];
    at /= extents[i];
  }
  return c;
}

// The inputs under one window: offsets in the plane (-1: padding, counted) in row-major order.
std::vector<int64_t> Window(const PoolShape& s, int64_t out) {
  const std::vector<int64_t> at = Coordinates(out, s.out, s.rank);
  std::vector<int64_t> offsets;
  for (int64_t t = 0; t < Product(s.kernel, s.rank); ++t) {
    const std::vector<int64_t> tap = Coordinates(t, s.kernel, s.rank);
    int64_t offset = 0;
    bool inside = true, padded = true;
    for (int i = 0; i < s.rank; ++i) {
      const auto a = static_cast<size_t>(i);
      const int64_t x = at[a] * s.strides[i] + tap[a] * s.dilations[i] - s.pads_begin[i];
      inside = inside && x >= 0 && x < s.in[i];
      padded = padded && x < s.in[i] + s.pads_end[i];
      offset = offset * s.in[i] + x;
    }
    if (inside) offsets.push_back(offset);
    if (!inside && padded) offsets.push_back(-1);
  }
  return offsets;
}

std::vector<Axis> Both(const Axis& a) { return {a, a}; }

std::vector<PoolShape> Shapes() {
  std::vector<PoolShape> shapes = {
      Shape(1, 5, Both({.in = 20, .kernel = 5, .pad_begin = 2, .pad_end = 2})),
      Shape(2, 3, Both({.in = 56, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1})),
      Shape(1, 3, Both({.in = 33, .kernel = 2, .stride = 2})),
      Shape(1, 3, Both({.in = 33, .kernel = 2, .stride = 2, .ceil = true})),
      Shape(1, 2,
            Both({.in = 17,
                  .kernel = 3,
                  .stride = 3,
                  .dilation = 2,
                  .pad_begin = 1,
                  .pad_end = 3,
                  .ceil = true})),
      // A block of rows and of columns each; one plane.
      Shape(1, 1,
            {{.in = 150, .kernel = 3, .pad_begin = 1}, {.in = 700, .kernel = 4, .stride = 1}}),
      Shape(3, 2, {{.in = 1500, .kernel = 5, .stride = 2, .pad_begin = 2, .pad_end = 1}}),
      Shape(1, 2,
            {{.in = 6, .kernel = 2, .stride = 2},
             {.in = 9, .kernel = 3, .pad_begin = 1},
             {.in = 10, .kernel = 2, .stride = 2, .ceil = true}}),
      Shape(1, 2,
            {{.in = 3, .kernel = 2},
             {.in = 3, .kernel = 2},
             {.in = 4, .kernel = 3},
             {.in = 5, .kernel = 2, .stride = 2, .pad_begin = 1}}),
      // Larger than any patch on the stack; the whole plane; nothing at all.
      Shape(1, 1, Both({.in = 90, .kernel = 80, .pad_begin = 3})),
      Shape(2, 4, Both({.in = 7, .kernel = 7})),
      Shape(0, 4, Both({.in = 7, .kernel = 3})),
      Shape(2, 0, Both({.in = 7, .kernel = 3})),
      Shape(2, 4, {{.in = 7, .kernel = 3}, {.in = 2, .kernel = 3}}),
  };
  for (int64_t width = 1; width < 40; width += 3) {
    shapes.push_back(Shape(1, 2,
                           {{.in = 4, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1},
                            {.in = width, .kernel = 3, .pad_begin = 1, .pad_end = 2}}));
  }
  return shapes;
}

std::string Describe(const PoolShape& s) {
  std::string text = std::to_string(s.batch) + "x" + std::to_string(s.channels);
  for (int i = 0; i < s.rank; ++i) {
    text += " [" + std::to_string(s.in[i]) + " k" + std::to_string(s.kernel[i]) + " s" +
            std::to_string(s.strides[i]) + " d" + std::to_string(s.dilations[i]) + " p" +
            std::to_string(s.pads_begin[i]) + " o" + std::to_string(s.out[i]) + "]";
  }
  return text;
}

// Runs `run(output, team)` on every target and team, checks guards and equal bits, and hands the
// result to `check`.
template <class Run, class CheckResult>
void Compare(int64_t elements, Run run, CheckResult check) {
  ForEachTarget([&](const char*) {
    std::vector<float> first;
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(threads);
      GuardedBytes out(static_cast<size_t>(elements) * 4, 4);
      run(out.floats(), TeamOf(threads));
      out.CheckGuards();
      if (threads == 1) {
        first.assign(out.floats(), out.floats() + elements);
        check(first);
      } else if (elements > 0) {
        ASSERT_EQ(memcmp(first.data(), out.get(), first.size() * 4), 0) << "team changes bits";
      }
    }
  });
}

TEST(Pool, Max) {
  for (const PoolShape& s : Shapes()) {
    SCOPED_TRACE(Describe(s));
    const int64_t in_size = Product(s.in, s.rank), out_size = Product(s.out, s.rank);
    const int64_t planes = s.batch * s.channels;
    std::vector<float> x = RandomFloats(planes * in_size, 1);
    for (size_t i = 0; i < x.size(); i += 101) x[i] = std::nanf("");
    for (size_t i = 7; i < x.size(); i += 97) x[i] = -kInfinity;
    std::vector<float> want;
    std::vector<int64_t> want_at, want_column;
    for (int64_t p = 0; p < planes; ++p) {
      for (int64_t o = 0; o < out_size; ++o) {
        float best = -kInfinity;
        int64_t best_at = -1;
        for (const int64_t at : Window(s, o)) {
          if (at < 0) continue;
          const float v = x[static_cast<size_t>(p * in_size + at)];
          if (best_at < 0 || (!std::isnan(best) && (std::isnan(v) || v > best))) {
            best = v;
            best_at = at;
          }
        }
        want.push_back(best);
        best_at = std::max<int64_t>(best_at, 0);
        want_at.push_back(p * in_size + best_at);
        const std::vector<int64_t> c = Coordinates(best_at, s.in, s.rank);
        int64_t column = 0;
        for (int i = s.rank - 1; i >= 0; --i) column = column * s.in[i] + c[static_cast<size_t>(i)];
        want_column.push_back(p * in_size + column);
      }
    }
    const auto check = [&](const std::vector<float>& got) {
      for (size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(want[i])) {
          ASSERT_TRUE(std::isnan(got[i])) << i;
        } else {
          ASSERT_EQ(got[i], want[i]) << i;
        }
      }
    };
    Compare(
        planes * out_size,
        [&](float* out, Team& team) {
          MaxPool(s, x.data(), out, nullptr, IndexOrder::kRowMajor, team);
        },
        check);
    for (const IndexOrder order : {IndexOrder::kRowMajor, IndexOrder::kColumnMajor}) {
      std::vector<float> out(want.size());
      std::vector<int64_t> at(want.size());
      MaxPool(s, x.data(), out.data(), at.data(), order, TeamOf(2));
      check(out);
      EXPECT_EQ(at, order == IndexOrder::kRowMajor ? want_at : want_column);
    }
  }
}

TEST(Pool, Average) {
  for (const PoolShape& s : Shapes()) {
    SCOPED_TRACE(Describe(s));
    const int64_t in_size = Product(s.in, s.rank), out_size = Product(s.out, s.rank);
    const int64_t planes = s.batch * s.channels;
    const std::vector<float> x = RandomFloats(planes * in_size, 1);
    for (const PadCount count : {PadCount::kExclude, PadCount::kInclude}) {
      std::vector<double> want, bound;
      for (int64_t p = 0; p < planes; ++p) {
        for (int64_t o = 0; o < out_size; ++o) {
          Sum sum;
          int64_t divisor = 0;
          for (const int64_t at : Window(s, o)) {
            if (at >= 0) sum.Add(x[static_cast<size_t>(p * in_size + at)]);
            if (at >= 0 || count == PadCount::kInclude) ++divisor;
          }
          const double d = static_cast<double>(std::max<int64_t>(divisor, 1));
          want.push_back(sum.value / d);
          bound.push_back(sum.Bound() / d);
        }
      }
      Compare(
          planes * out_size,
          [&](float* out, Team& team) { AveragePool(s, x.data(), out, count, team); },
          [&](const std::vector<float>& got) {
            for (size_t i = 0; i < got.size(); ++i) {
              ASSERT_LE(std::abs(got[i] - want[i]), bound[i]) << i;
            }
          });
    }
  }
}

// y = (sum |x|^p)^(1/p): the relative error of the sum, divided by p, and one rounding of the root
// (p above 2 goes through f64: the result's rounding alone).
TEST(Pool, Lp) {
  for (const PoolShape& s : Shapes()) {
    SCOPED_TRACE(Describe(s));
    const int64_t in_size = Product(s.in, s.rank), out_size = Product(s.out, s.rank);
    const int64_t planes = s.batch * s.channels;
    const std::vector<float> x = RandomFloats(planes * in_size, 1);
    for (const int64_t power : {1, 2, 3}) {
      std::vector<double> want, bound;
      for (int64_t p = 0; p < planes; ++p) {
        for (int64_t o = 0; o < out_size; ++o) {
          double sum = 0;
          int64_t terms = 0;
          for (const int64_t at : Window(s, o)) {
            if (at < 0) continue;
            const double v = x[static_cast<size_t>(p * in_size + at)];
            sum += std::pow(std::abs(v), static_cast<double>(power));
            ++terms;
          }
          want.push_back(std::pow(sum, 1.0 / static_cast<double>(power)));
          bound.push_back(want.back() * (testing::Gamma(terms + 1) + 0x1p-24) + 1e-40);
        }
      }
      Compare(
          planes * out_size, [&](float* out, Team& team) { LpPool(s, x.data(), out, power, team); },
          [&](const std::vector<float>& got) {
            for (size_t i = 0; i < got.size(); ++i) {
              ASSERT_LE(std::abs(got[i] - want[i]), bound[i]) << i << ", p " << power;
            }
          });
    }
  }
}

TEST(Pool, Global) {
  for (const int64_t plane : {1, 2, 7, 16, 49, 63, 64, 1000}) {
    const int64_t planes = 2 * 1000 / plane + 3;
    std::vector<float> x = RandomFloats(planes * plane, 1);
    Compare(
        planes,
        [&](float* out, Team& team) { GlobalAveragePool(planes, plane, x.data(), out, team); },
        [&](const std::vector<float>& got) {
          for (int64_t p = 0; p < planes; ++p) {
            Sum sum;
            for (int64_t i = 0; i < plane; ++i) sum.Add(x[static_cast<size_t>(p * plane + i)]);
            const double n = static_cast<double>(plane);
            ASSERT_LE(std::abs(got[static_cast<size_t>(p)] - sum.value / n), sum.Bound() / n);
          }
        });
    // A NaN anywhere in the last plane, at each position in turn.
    for (int64_t i = 0; i < plane; ++i) {
      const auto last = static_cast<size_t>((planes - 1) * plane + i);
      const float kept = x[last];
      x[last] = std::nanf("");
      Compare(
          planes,
          [&](float* out, Team& team) { GlobalMaxPool(planes, plane, x.data(), out, team); },
          [&](const std::vector<float>& got) {
            for (int64_t p = 0; p + 1 < planes; ++p) {
              ASSERT_EQ(got[static_cast<size_t>(p)],
                        *std::max_element(x.begin() + p * plane, x.begin() + (p + 1) * plane));
            }
            ASSERT_TRUE(std::isnan(got.back())) << i;
          });
      x[last] = kept;
    }
  }
}

// The portable pools on other types, against f32 on the same (exactly represented) values.
template <class T, class Acc>
void CheckGeneric() {
  for (const PoolShape& s : Shapes()) {
    SCOPED_TRACE(Describe(s));
    const int64_t n = s.batch * s.channels * Product(s.in, s.rank);
    const int64_t out_n = s.batch * s.channels * Product(s.out, s.rank);
    std::vector<float> x(static_cast<size_t>(n));
    std::vector<T> xt;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>((i * 7919) % 100);
      xt.push_back(static_cast<T>(x[i]));
    }
    std::vector<float> y(static_cast<size_t>(out_n));
    std::vector<T> yt(y.size());
    MaxPool(s, x.data(), y.data(), nullptr, IndexOrder::kRowMajor, TeamOf(1));
    GenericMaxPool<T>(s, xt.data(), yt.data(), nullptr, IndexOrder::kRowMajor, TeamOf(3));
    for (size_t i = 0; i < y.size(); ++i) {
      if (y[i] == -kInfinity) {
        if (std::numeric_limits<T>::is_integer) {
          ASSERT_EQ(yt[i], std::numeric_limits<T>::lowest());
        }
        continue;
      }
      ASSERT_EQ(static_cast<float>(yt[i]), y[i]) << i;
    }
    AveragePool(s, x.data(), y.data(), PadCount::kInclude, TeamOf(1));
    GenericAveragePool<Acc>(s, xt.data(), yt.data(), PadCount::kInclude, TeamOf(3));
    // Sums below 2^24 are exact in f32, so both divide the same numbers: one rounding to T apart,
    // or, for integers, a truncation.
    const float epsilon = std::is_same_v<T, double> ? 0x1p-23f : 0x1p-10f;
    for (size_t i = 0; i < y.size(); ++i) {
      const float slack = std::numeric_limits<T>::is_integer ? 1.0f : epsilon * y[i];
      ASSERT_LE(std::abs(static_cast<float>(yt[i]) - y[i]), slack) << i;
    }
  }
}

TEST(Pool, GenericF64) { CheckGeneric<double, double>(); }
TEST(Pool, GenericF16) { CheckGeneric<F16, float>(); }
TEST(Pool, GenericI8) { CheckGeneric<int8_t, int32_t>(); }
TEST(Pool, GenericU8) { CheckGeneric<uint8_t, int32_t>(); }

}  // namespace
}  // namespace parallax::kernels
