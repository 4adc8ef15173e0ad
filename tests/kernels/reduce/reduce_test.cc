// Reduce over every set of axes against f64 loops; derived error bounds; empty sets; corners.
#include "kernels/reduce/reduce.h"

#include <cmath>
#include <vector>

#include "kernels/elementwise/cast.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

constexpr ReduceOp kOps[] = {
    ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax,    ReduceOp::kMin,       ReduceOp::kProd,
    ReduceOp::kL1,  ReduceOp::kL2,   ReduceOp::kLogSum, ReduceOp::kLogSumExp, ReduceOp::kSumSquare};

// Reference on the inputs of one output, in long double.
struct Reference {
  long double value = 0;
  long double magnitude = 0;  // sum of the absolute terms, the scale of the rounding error

  Reference(ReduceOp op, const std::vector<long double>& x) {
    const long double inf = std::numeric_limits<long double>::infinity();
    long double max = -inf;
    long double min = inf;
    long double sum = 0;
    long double abs = 0;
    long double square = 0;
    long double prod = 1;
    for (long double v : x) {
      max = std::max(max, v);
      min = std::min(min, v);
      sum += v;
      abs += std::fabs(v);
      square += v * v;
      prod *= v;
    }
    long double exps = 0;
    for (long double v : x) exps += std::exp(v - max);
    switch (op) {
      case ReduceOp::kSum:
        value = sum;
        magnitude = abs;
        break;
      case ReduceOp::kMean:
        value = sum / static_cast<long double>(x.size());
        magnitude = abs / static_cast<long double>(x.size());
        break;
      case ReduceOp::kMax:
        value = max;
        break;
      case ReduceOp::kMin:
        value = min;
        break;
      case ReduceOp::kProd:
        value = prod;
        magnitude = std::fabs(prod);
        break;
      case ReduceOp::kL1:
        value = magnitude = abs;
        break;
      case ReduceOp::kL2:
        value = magnitude = std::sqrt(square);
        break;
      // d log(s) = ds / s: the sum's error relative to the sum.
      case ReduceOp::kLogSum:
        value = std::log(sum);
        magnitude = abs / std::fabs(sum) + std::fabs(value);
        break;
      // Terms carry exp's own rounding of its argument, up to |v - max| <= 30 here, and the log's.
      case ReduceOp::kLogSumExp:
        value = max + std::log(exps);
        magnitude = 32 + std::fabs(value);
        break;
      case ReduceOp::kSumSquare:
        value = magnitude = square;
        break;
    }
  }
};

// The inputs of every output, in row-major order of the kept axes.
template <class T>
std::vector<std::vector<long double>> Group(const Shape& shape, uint32_t axes, const T* x) {
  std::vector<std::vector<long double>> groups;
  int64_t outputs = 1;
  for (int k = 0; k < shape.rank(); ++k) {
    if ((axes >> k & 1) == 0) outputs *= shape[k];
  }
  groups.resize(static_cast<size_t>(outputs));
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    int64_t to = 0;
    int64_t stride = 1;
    for (int k = shape.rank(); k-- > 0;) {
      if ((axes >> k & 1) == 0) {
        to += rest % shape[k] * stride;
        stride *= shape[k];
      }
      rest /= shape[k];
    }
    groups[static_cast<size_t>(to)].push_back(static_cast<long double>(x[i]));
  }
  return groups;
}

std::vector<int64_t> AxisList(uint32_t axes) {
  std::vector<int64_t> list;
  for (int k = 12; k-- > 0;) {
    if ((axes >> k & 1) != 0) list.push_back(k);
  }
  return list;
}

// The unit of rounding of a float type.
template <class T>
long double Unit() {
  if (std::is_same_v<T, double>) return 0x1p-53L;
  if (std::is_same_v<T, float>) return 0x1p-24L;
  return std::is_same_v<T, F16> ? 0x1p-11L : 0x1p-8L;
}

// Half of the smallest denormal.
template <class T>
long double HalfStep() {
  if (std::is_same_v<T, F16>) return 0x1p-25L;
  return std::is_same_v<T, double> ? 0x1p-1075L : 0x1p-134L;  // bf16's, larger than f32's
}

template <class T>
double LargestOf() {
  if (std::is_same_v<T, F16>) return 65504;
  return std::is_same_v<T, double> ? std::numeric_limits<double>::max()
                                   : static_cast<double>(std::numeric_limits<float>::max());
}

template <class T>
void CheckFloat(const Shape& shape, uint32_t axes, const std::vector<T>& x, ReduceOp op) {
  const ReducePlan plan = MakeReducePlan(shape, AxisList(axes));
  const auto groups = Group(shape, axes, x.data());
  ASSERT_EQ(plan.outputs, static_cast<int64_t>(groups.size()));
  const Shifted<T> in(x);
  const std::vector<T> y = RunTeams<T>(groups.size(), [&](Team& team, T* out) {
    Reduce(op, kDTypeOf<T>, plan, in.data, out, team);
  });
  for (size_t i = 0; i < groups.size(); ++i) {
    const Reference want(op, groups[i]);
    const long double got = static_cast<long double>(y[i]);
    if (std::isnan(want.value)) {
      ASSERT_TRUE(std::isnan(got));
      continue;
    }
    if (std::isinf(want.value)) {
      ASSERT_EQ(got, want.value);
      continue;
    }
    // Past the range of T (but for the last half step, which may round either way): infinite.
    const long double largest = static_cast<long double>(LargestOf<T>());
    if (std::fabs(want.value) > largest * 1.001L) {
      ASSERT_EQ(std::fabs(got), std::numeric_limits<long double>::infinity());
      ASSERT_EQ(std::signbit(got), std::signbit(want.value));
      continue;
    }
    // One rounding to T, and the bound of reduce.h for sums in f32 (the worst of its two: 138 terms
    // on one lane, 130 across rows) or in f64 (one addition a term).
    const long double terms =
        static_cast<long double>(std::is_same_v<T, double> ? groups[i].size() + 4 : 140);
    const long double sum_unit = std::is_same_v<T, double> ? 0x1p-53L : 0x1p-24L;
    const long double tolerance = Unit<T>() * std::fabs(want.value) * 1.01L +
                                  terms * sum_unit * want.magnitude + HalfStep<T>();
    ASSERT_LE(std::fabs(got - want.value), tolerance)
        << shape.ToString() << " axes " << axes << " op " << static_cast<int>(op) << " output " << i
        << ": " << got << " not " << want.value;
  }
}

TEST(Reduce, EveryAxisSetOfFloats) {
  const std::vector<Shape> shapes = {
      {},        {1},        {7},        {513},        {3, 5},
      {2, 3, 4}, {5, 1, 67}, {4, 70, 3}, {2, 3, 4, 5}, {3, 2, 1, 9, 2},
      {2, 600},  {600, 2},   {33, 300},  {300, 33}};
  ForEachTarget([&] {
    for (const Shape& shape : shapes) {
      const size_t n = static_cast<size_t>(shape.elements());
      for (uint32_t axes = 0; axes < 1u << shape.rank(); ++axes) {
        for (ReduceOp op : kOps) {
          CheckFloat<float>(shape, axes, RandomValues<float>(n, 3), op);
          CheckFloat<double>(shape, axes, RandomValues<double>(n, 4), op);
          if (op == ReduceOp::kProd && n > 100) continue;  // out of f16's range
          CheckFloat<F16>(shape, axes, RandomValues<F16>(n, 5), op);
          CheckFloat<BF16>(shape, axes, RandomValues<BF16>(n, 6), op);
        }
      }
    }
  });
}

// Large enough to be split along the reduction.
TEST(Reduce, SplitReductions) {
  ForEachTarget([&] {
    const std::vector<float> x = RandomValues<float>(210000, 7);
    for (ReduceOp op : {ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kL2, ReduceOp::kLogSumExp}) {
      CheckFloat<float>({210000}, 1, x, op);
      CheckFloat<float>({3, 70000}, 2, x, op);
      CheckFloat<float>({70000, 3}, 1, x, op);
      CheckFloat<float>({10, 3, 7000}, 5, x, op);
      CheckFloat<float>({700, 300}, 1, x, op);
    }
  });
}

// A sum that one f32 accumulator gets wrong by percents.
TEST(Reduce, LongSumsStayAccurate) {
  ForEachTarget([] {
    Team team(2);
    const std::vector<float> x(1 << 22, 0.1f);
    float y = 0;
    Reduce(ReduceOp::kSum, DType::kF32, MakeReducePlan({1 << 22}, std::vector<int64_t>{0}),
           x.data(), &y, team);
    const double want = static_cast<double>(0.1f) * (1 << 22);
    EXPECT_NEAR(static_cast<double>(y), want, want * 140 * 0x1p-24);
    Reduce(ReduceOp::kMean, DType::kF32, MakeReducePlan({1 << 21, 2}, std::vector<int64_t>{0, 1}),
           x.data(), &y, team);
    EXPECT_NEAR(static_cast<double>(y), static_cast<double>(0.1f), 0.1 * 140 * 0x1p-24);
    // f16 accumulates in f32: 4096 ones do not stop at 2048.
    const std::vector<F16> ones(4096, F16(1.0f));
    F16 h;
    Reduce(ReduceOp::kSum, DType::kF16, MakeReducePlan({4096}, std::vector<int64_t>{0}),
           ones.data(), &h, team);
    EXPECT_EQ(static_cast<float>(h), 4096.0f);
  });
}

template <class T>
void CheckInteger(const Shape& shape, uint32_t axes) {
  const ReducePlan plan = MakeReducePlan(shape, AxisList(axes));
  const size_t n = static_cast<size_t>(shape.elements());
  const std::vector<T> x = RandomValues<T>(n, 8, true);
  std::vector<T> small = RandomValues<T>(n, 9);
  const auto groups = Group(shape, axes, x.data());
  const auto small_groups = Group(shape, axes, small.data());
  for (ReduceOp op : kOps) {
    ASSERT_TRUE(ReduceSupports(op, kDTypeOf<T>));
    const bool exact = op != ReduceOp::kL2 && op != ReduceOp::kLogSum && op != ReduceOp::kLogSumExp;
    const std::vector<T> y = RunTeams<T>(groups.size(), [&](Team& team, T* out) {
      Reduce(op, kDTypeOf<T>, plan, exact ? x.data() : small.data(), out, team);
    });
    for (size_t i = 0; i < groups.size(); ++i) {
      uint64_t sum = 0;
      uint64_t prod = 1;
      uint64_t l1 = 0;
      uint64_t square = 0;
      for (long double v : groups[i]) {
        const T t = static_cast<T>(v);
        const uint64_t u = static_cast<uint64_t>(t);
        sum += u;
        prod *= u;
        l1 += t < 0 ? 0 - u : u;
        square += u * u;
      }
      T want = 0;
      switch (op) {
        case ReduceOp::kSum:
          want = static_cast<T>(sum);
          break;
        case ReduceOp::kProd:
          want = static_cast<T>(prod);
          break;
        case ReduceOp::kL1:
          want = static_cast<T>(l1);
          break;
        case ReduceOp::kSumSquare:
          want = static_cast<T>(square);
          break;
        case ReduceOp::kMean:
          want = std::is_signed_v<T> ? static_cast<T>(static_cast<int64_t>(sum) /
                                                      static_cast<int64_t>(groups[i].size()))
                                     : static_cast<T>(sum / groups[i].size());
          break;
        case ReduceOp::kMax:
        case ReduceOp::kMin:
          want = static_cast<T>(Reference(op, groups[i]).value);
          break;
        default: {
          const long double v = Reference(op, small_groups[i]).value;
          // Not a number, or infinite: whatever Cast makes of it.
          if (!std::isfinite(v)) continue;
          // The last bit may fall either side of an integer.
          if (std::fabs(v - std::nearbyint(v)) <= 1e-9L) continue;
          const double value = static_cast<double>(v);
          CastSerial(DType::kF64, kDTypeOf<T>, &value, &want, 1);
          ASSERT_EQ(y[i], want) << static_cast<int>(op);
          continue;
        }
      }
      ASSERT_EQ(y[i], want) << shape.ToString() << " axes " << axes << " op "
                            << static_cast<int>(op);
    }
  }
}

TEST(Reduce, IntegersWrapOrTruncate) {
  for (const Shape& shape :
       {Shape{7}, Shape{3, 5}, Shape{4, 3, 66}, Shape{66, 3, 4}, Shape{100, 900}}) {
    for (uint32_t axes = 0; axes < 1u << shape.rank(); ++axes) {
      CheckInteger<int8_t>(shape, axes);
      CheckInteger<uint8_t>(shape, axes);
      CheckInteger<int16_t>(shape, axes);
      CheckInteger<uint16_t>(shape, axes);
      CheckInteger<int32_t>(shape, axes);
      CheckInteger<uint32_t>(shape, axes);
      CheckInteger<int64_t>(shape, axes);
      CheckInteger<uint64_t>(shape, axes);
    }
  }
}

template <class T>
T Empty(ReduceOp op) {
  const ReducePlan plan = MakeReducePlan({0, 4}, std::vector<int64_t>{0});
  T y[4];
  Team team(2);
  Reduce(op, kDTypeOf<T>, plan, nullptr, y, team);
  EXPECT_EQ(std::memcmp(y, y + 1, 3 * sizeof(T)), 0);
  return y[0];
}

TEST(Reduce, EmptySetsGiveTheIdentity) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Empty<float>(ReduceOp::kSum), 0.0f);
  EXPECT_EQ(Empty<float>(ReduceOp::kProd), 1.0f);
  EXPECT_TRUE(std::isnan(Empty<float>(ReduceOp::kMean)));
  EXPECT_EQ(Empty<float>(ReduceOp::kMax), -inf);
  EXPECT_EQ(Empty<float>(ReduceOp::kMin), inf);
  EXPECT_EQ(Empty<float>(ReduceOp::kL2), 0.0f);
  EXPECT_EQ(Empty<float>(ReduceOp::kLogSum), -inf);
  EXPECT_EQ(Empty<float>(ReduceOp::kLogSumExp), -inf);
  EXPECT_EQ(Empty<double>(ReduceOp::kMax), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(static_cast<float>(Empty<F16>(ReduceOp::kMin)), inf);
  EXPECT_EQ(Empty<int8_t>(ReduceOp::kMax), -128);
  EXPECT_EQ(Empty<int64_t>(ReduceOp::kMin), INT64_MAX);
  EXPECT_EQ(Empty<uint32_t>(ReduceOp::kMax), 0u);
  EXPECT_EQ(Empty<int32_t>(ReduceOp::kMean), 0);
  EXPECT_FALSE(Empty<bool>(ReduceOp::kMax));
  EXPECT_TRUE(Empty<bool>(ReduceOp::kMin));
  // No output at all.
  Team team(1);
  Reduce(ReduceOp::kSum, DType::kF32, MakeReducePlan({3, 0}, std::vector<int64_t>{0}), nullptr,
         nullptr, team);
}

TEST(Reduce, InfinityAndNaN) {
  ForEachTarget([] {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Team team(1);
    const auto run = [&](ReduceOp op, std::vector<float> x, bool columns) {
      const int64_t n = static_cast<int64_t>(x.size());
      float y[2];
      if (columns) {  // the same values down two columns
        std::vector<float> z;
        for (float v : x) z.insert(z.end(), {v, v});
        Reduce(op, DType::kF32, MakeReducePlan({n, 2}, std::vector<int64_t>{0}), z.data(), y, team);
      } else {
        Reduce(op, DType::kF32, MakeReducePlan({n}, std::vector<int64_t>{0}), x.data(), y, team);
      }
      return y[0];
    };
    for (bool columns : {false, true}) {
      for (size_t at : {0, 5, 40, 69}) {
        std::vector<float> x(70, 1.0f);
        x[at] = nan;
        for (ReduceOp op : kOps)
          EXPECT_TRUE(std::isnan(run(op, x, columns))) << static_cast<int>(op);
      }
      EXPECT_EQ(run(ReduceOp::kLogSumExp, {-inf, -inf}, columns), -inf);
      EXPECT_EQ(run(ReduceOp::kLogSumExp, {-inf, 2}, columns), 2.0f);
      EXPECT_EQ(run(ReduceOp::kLogSumExp, {inf, 1000}, columns), inf);
      EXPECT_EQ(run(ReduceOp::kLogSumExp, {1000, 1000}, columns), 1000 + std::log(2.0f));
      EXPECT_EQ(run(ReduceOp::kLogSumExp, {-1000}, columns), -1000.0f);
      EXPECT_EQ(run(ReduceOp::kMax, {-inf, -3}, columns), -3.0f);
      EXPECT_EQ(run(ReduceOp::kMin, {inf, inf}, columns), inf);
      EXPECT_EQ(run(ReduceOp::kSum, {inf, 1}, columns), inf);
      // The product of f32 is formed in f64.
      EXPECT_EQ(run(ReduceOp::kProd, {1e30f, 1e30f, 1e-30f, 1e-30f}, columns), 1.0f);
    }
  });
}

TEST(Reduce, PlansMerge) {
  const ReducePlan plan = MakeReducePlan({2, 3, 1, 4, 5}, std::vector<int64_t>{4, 3, 2, 3});
  EXPECT_EQ(plan.rank, 2);
  EXPECT_EQ(plan.outputs, 6);
  EXPECT_EQ(plan.per_output, 20);
  EXPECT_FALSE(plan.reduced[0]);
  EXPECT_TRUE(plan.reduced[1]);
}

}  // namespace
}  // namespace parallax::kernels
