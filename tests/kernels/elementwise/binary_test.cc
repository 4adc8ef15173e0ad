// Binary, Pow, Where and broadcast plans against index arithmetic on whole shapes.
#include "kernels/elementwise/binary.h"

#include <cmath>
#include <functional>
#include <vector>

#include "kernels/elementwise/where.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

// Flat index into `shape` of the element that output index `i` of `out` reads.
int64_t SourceIndex(const Shape& out, const Shape& shape, int64_t i) {
  int64_t index = 0;
  int64_t stride = 1;
  for (int k = out.rank(); k-- > 0;) {
    const int64_t at = i % out[k];
    i /= out[k];
    const int own = k - (out.rank() - shape.rank());
    if (own < 0) continue;
    index += (shape[own] == 1 ? 0 : at) * stride;
    stride *= shape[own];
  }
  return index;
}

struct Pair {
  Shape a, b;
};

std::vector<Pair> Pairs() {
  return {{{}, {}},
          {{1}, {}},
          {{17}, {17}},
          {{67}, {1}},
          {{}, {67}},
          {{3, 5}, {5}},
          {{3, 1}, {1, 37}},
          {{2, 3, 4}, {3, 1}},
          {{2, 1, 4, 1}, {3, 1, 19}},
          {{4, 1, 5}, {4, 3, 5}},
          {{2, 3, 1, 1}, {2, 3, 8, 9}},
          {{0, 4}, {4}},
          {{3, 0}, {3, 1}},
          {{1, 1, 1}, {2, 2}},
          {{130, 257}, {130, 1}},
          {{2, 1, 3, 1, 2, 1}, {1, 5, 1, 2, 1, 3}}};
}

TEST(Broadcast, PlansAreSmallAndShapesRight) {
  const BroadcastPlan same = MakeBroadcastPlan({2, 3, 4}, {2, 3, 4});
  EXPECT_EQ(same.rank, 1);
  EXPECT_EQ(same.extent[0], 24);
  EXPECT_TRUE(same.IsDense(0) && same.IsDense(1));
  const BroadcastPlan bias = MakeBroadcastPlan({8, 16, 7, 7}, {16, 1, 1});
  EXPECT_EQ(bias.rank, 3);
  EXPECT_EQ(bias.stride[1][1], 1);
  EXPECT_EQ(bias.stride[1][2], 0);
  EXPECT_FALSE(bias.IsDense(1));
  EXPECT_EQ(bias.shape, (Shape{8, 16, 7, 7}));
  const BroadcastPlan scalar = MakeBroadcastPlan({8, 16}, {});
  EXPECT_EQ(scalar.rank, 1);
  EXPECT_EQ(scalar.stride[1][0], 0);

  const Shape shapes[] = {{2, 1, 3}, {4, 1}, {1}};
  Result<Shape> r = BroadcastShape(shapes);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(*r, (Shape{2, 4, 3}));
  const Shape bad[] = {{2, 3}, {4}};
  r = BroadcastShape(bad);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().message(), "shapes [2,3], [4] do not broadcast");
  const Shape empty[] = {{0, 1}, {1, 5}};
  r = BroadcastShape(empty);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(*r, (Shape{0, 5}));
  const Shape clash[] = {{0}, {2}};
  EXPECT_FALSE(BroadcastShape(clash).ok());
}

// Exact for +, -, *, / of f32 and comparisons; f16 and bf16 round the f32 result.
TEST(Binary, EveryShapeAndTarget) {
  struct Row {
    BinaryOp op;
    std::function<float(float, float)> want;
  };
  const std::vector<Row> rows = {
      {BinaryOp::kAdd, [](float a, float b) { return a + b; }},
      {BinaryOp::kSub, [](float a, float b) { return a - b; }},
      {BinaryOp::kMul, [](float a, float b) { return a * b; }},
      {BinaryOp::kDiv, [](float a, float b) { return a / b; }},
      {BinaryOp::kMin, [](float a, float b) { return std::fmin(a, b); }},
      {BinaryOp::kMax, [](float a, float b) { return std::fmax(a, b); }},
      {BinaryOp::kPRelu, [](float a, float b) { return a < 0 ? a * b : a; }},
      {BinaryOp::kFmod, [](float a, float b) { return std::fmod(a, b); }},
      {BinaryOp::kMod, [](float a, float b) { return a - b * std::floor(a / b); }}};
  ForEachTarget([&] {
    for (const Pair& p : Pairs()) {
      const BroadcastPlan plan = MakeBroadcastPlan(p.a, p.b);
      const size_t n = static_cast<size_t>(plan.elements);
      for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
        DispatchType(dtype, [&]<class T>() {
          if constexpr (IsFloat(kDTypeOf<T>)) {
            const Shifted<T> a(RandomValues<T>(static_cast<size_t>(p.a.elements()), 1));
            const Shifted<T> b(RandomValues<T>(static_cast<size_t>(p.b.elements()), 2));
            for (const Row& row : rows) {
              const std::vector<T> got = RunTeams<T>(n, [&](Team& team, T* out) {
                Binary(row.op, dtype, plan, a.data, b.data, out, team);
              });
              for (size_t i = 0; i < n; ++i) {
                const float x = static_cast<float>(
                    a.data[SourceIndex(plan.shape, p.a, static_cast<int64_t>(i))]);
                const float y = static_cast<float>(
                    b.data[SourceIndex(plan.shape, p.b, static_cast<int64_t>(i))]);
                const float want = row.want(x, y);
                const float value = static_cast<float>(got[i]);
                const bool exact = dtype == DType::kF32 && row.op != BinaryOp::kMod;
                if (exact) {
                  ASSERT_EQ(value, want) << static_cast<int>(row.op) << " at " << i;
                } else if (dtype != DType::kF64 && row.op != BinaryOp::kMod) {
                  ASSERT_EQ(value, static_cast<float>(T(want))) << static_cast<int>(row.op);
                } else {
                  // f64 inputs were rounded to f32 for `want`: relative to the operands. Mod jumps
                  // by b where the quotient rounds across an integer.
                  const float tolerance = 1e-2f * (std::abs(x) + std::abs(y) + std::abs(want));
                  const float miss = std::abs(value - want);
                  ASSERT_TRUE(miss <= tolerance || std::abs(miss - std::abs(y)) <= tolerance)
                      << static_cast<int>(row.op) << " " << x << " " << y << " " << value;
                }
              }
            }
          }
        });
      }
    }
  });
}

TEST(Binary, F64IsExact) {
  const std::vector<double> a = RandomValues<double>(100, 5);
  const std::vector<double> b = RandomValues<double>(100, 6);
  const BroadcastPlan plan = MakeBroadcastPlan({100}, {100});
  std::vector<double> out(100);
  Team team(1);
  Binary(BinaryOp::kMul, DType::kF64, plan, a.data(), b.data(), out.data(), team);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], a[i] * b[i]);
  Binary(BinaryOp::kMod, DType::kF64, plan, a.data(), b.data(), out.data(), team);
  for (size_t i = 0; i < 100; ++i) {
    // The remainder has the divisor's sign and, where C's is taken over, its bits.
    const double r = std::fmod(a[i], b[i]);
    EXPECT_EQ(out[i], r != 0 && (r < 0) != (b[i] < 0) ? r + b[i] : r);
    EXPECT_TRUE(out[i] == 0 || (out[i] < 0) == (b[i] < 0));
  }
}

template <class T>
std::vector<T> RunOp(BinaryOp op, const std::vector<T>& a, const std::vector<T>& b) {
  EXPECT_TRUE(BinarySupports(op, kDTypeOf<T>));
  const int64_t n = static_cast<int64_t>(a.size());
  std::vector<T> out(a.size());
  Team team(1);
  Binary(op, kDTypeOf<T>, MakeBroadcastPlan({n}, {static_cast<int64_t>(b.size())}), a.data(),
         b.data(), out.data(), team);
  return out;
}

TEST(Binary, IntegerCorners) {
  using I8 = std::vector<int8_t>;
  using I32 = std::vector<int32_t>;
  using I64 = std::vector<int64_t>;
  using U8 = std::vector<uint8_t>;
  EXPECT_EQ(RunOp<int32_t>(BinaryOp::kDiv, {7, -7, 7, -7, 5, INT32_MIN}, {2, 2, -2, -2, 0, -1}),
            (I32{3, -3, -3, 3, 0, INT32_MIN}));
  EXPECT_EQ(RunOp<int32_t>(BinaryOp::kMod, {7, -7, 7, -7, 5, INT32_MIN}, {3, 3, -3, -3, 0, -1}),
            (I32{1, 2, -2, -1, 0, 0}));
  EXPECT_EQ(RunOp<int32_t>(BinaryOp::kFmod, {7, -7, 7, -7, 5, INT32_MIN}, {3, 3, -3, -3, 0, -1}),
            (I32{1, -1, 1, -1, 0, 0}));
  EXPECT_EQ(RunOp<int64_t>(BinaryOp::kDiv, {INT64_MIN, 9}, {-1, 0}), (I64{INT64_MIN, 0}));
  EXPECT_EQ(RunOp<int8_t>(BinaryOp::kDiv, {-128, 100}, {-1, 7}), (I8{-128, 14}));
  EXPECT_EQ(RunOp<int8_t>(BinaryOp::kAdd, {127, -128}, {1, -1}), (I8{-128, 127}));
  EXPECT_EQ(RunOp<uint8_t>(BinaryOp::kSub, {0, 5}, {1, 6}), (U8{255, 255}));
  EXPECT_EQ(RunOp<uint16_t>(BinaryOp::kMul, {65535}, {65535}), (std::vector<uint16_t>{1}));
  EXPECT_EQ(RunOp<int64_t>(BinaryOp::kMul, {INT64_MAX}, {2}), (I64{-2}));
  EXPECT_EQ(RunOp<uint8_t>(BinaryOp::kShiftLeft, {1, 255, 3, 3}, {7, 1, 8, 255}),
            (U8{128, 254, 0, 0}));
  EXPECT_EQ(RunOp<uint8_t>(BinaryOp::kShiftRight, {128, 255, 3, 3}, {7, 1, 8, 0}),
            (U8{1, 127, 0, 3}));
  EXPECT_EQ(RunOp<uint64_t>(BinaryOp::kShiftLeft, {1, 1}, {63, 64}),
            (std::vector<uint64_t>{uint64_t{1} << 63, 0}));
  EXPECT_EQ(RunOp<int32_t>(BinaryOp::kBitwiseXor, {5, -1}, {3, 1}), (I32{6, -2}));
  EXPECT_EQ(RunOp<int32_t>(BinaryOp::kBitwiseAnd, {6}, {3}), (I32{2}));
  EXPECT_EQ(RunOp<int32_t>(BinaryOp::kBitwiseOr, {6}, {3}), (I32{7}));
  EXPECT_EQ(RunOp<int64_t>(BinaryOp::kMax, {-3, 4}, {2}), (I64{2, 4}));
  EXPECT_EQ(RunOp<uint32_t>(BinaryOp::kMin, {0xffffffff}, {1}), (std::vector<uint32_t>{1}));
  EXPECT_EQ(RunOp<int32_t>(BinaryOp::kPRelu, {-4, 4}, {3}), (I32{-12, 4}));
}

TEST(Binary, NaNRules) {
  ForEachTarget([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (BinaryOp op : {BinaryOp::kMin, BinaryOp::kMax}) {
      const std::vector<float> y = RunOp<float>(op, {nan, 1, nan}, {1, nan, nan});
      for (float v : y) EXPECT_TRUE(std::isnan(v));
    }
    const float x[3] = {nan, 1, 2};
    const float z[3] = {nan, nan, 2};
    Team team(1);
    for (BinaryOp op : {BinaryOp::kEqual, BinaryOp::kLess, BinaryOp::kGreater,
                        BinaryOp::kLessOrEqual, BinaryOp::kGreaterOrEqual}) {
      bool out[3];
      Binary(op, DType::kF32, MakeBroadcastPlan({3}, {3}), x, z, out, team);
      EXPECT_FALSE(out[0] || out[1]);
      EXPECT_EQ(out[2], op != BinaryOp::kLess && op != BinaryOp::kGreater);
    }
  });
}

TEST(Binary, ComparisonsAndLogic) {
  Team team(1);
  const bool p[4] = {false, false, true, true};
  const bool q[4] = {false, true, false, true};
  const BroadcastPlan plan = MakeBroadcastPlan({4}, {4});
  const auto run = [&](BinaryOp op) {
    bool out[4];
    Binary(op, DType::kBool, plan, p, q, out, team);
    return out[0] * 1000 + out[1] * 100 + out[2] * 10 + out[3] * 1;
  };
  EXPECT_EQ(run(BinaryOp::kAnd), 1);
  EXPECT_EQ(run(BinaryOp::kOr), 111);
  EXPECT_EQ(run(BinaryOp::kXor), 110);
  EXPECT_EQ(run(BinaryOp::kEqual), 1001);
  const F16 a[2] = {F16(1.0f), F16(3.0f)};
  const F16 b[1] = {F16(2.0f)};
  bool out[2];
  Binary(BinaryOp::kLess, DType::kF16, MakeBroadcastPlan({2}, {1}), a, b, out, team);
  EXPECT_TRUE(out[0]);
  EXPECT_FALSE(out[1]);
  const uint64_t u[2] = {UINT64_MAX, 1};
  const uint64_t v[2] = {1, UINT64_MAX};
  Binary(BinaryOp::kGreater, DType::kU64, MakeBroadcastPlan({2}, {2}), u, v, out, team);
  EXPECT_TRUE(out[0]);
  EXPECT_FALSE(out[1]);
}

TEST(Binary, InPlaceOnEitherSide) {
  ForEachTarget([] {
    Team team(2);
    const std::vector<float> a = Normal(40000, 1);
    const std::vector<float> b = Normal(40000, 2);
    const BroadcastPlan plan = MakeBroadcastPlan({40000}, {40000});
    std::vector<float> want(a.size());
    Binary(BinaryOp::kSub, DType::kF32, plan, a.data(), b.data(), want.data(), team);
    std::vector<float> x = a;
    Binary(BinaryOp::kSub, DType::kF32, plan, x.data(), b.data(), x.data(), team);
    EXPECT_EQ(x, want);
    x = b;
    Binary(BinaryOp::kSub, DType::kF32, plan, a.data(), x.data(), x.data(), team);
    EXPECT_EQ(x, want);
  });
}

// An operand of the output's shape may be overwritten while the other one broadcasts, whatever the
// loops of the plan: planners and variadic operators rely on it.
TEST(Binary, InPlaceWhileTheOtherBroadcasts) {
  ForEachTarget([] {
    Team team(3);
    for (const Pair& pair : Pairs()) {
      const std::array<Shape, 2> both = {pair.a, pair.b};
      Result<Shape> out = BroadcastShape(both);
      ASSERT_TRUE(out.ok());
      const BroadcastPlan plan = MakeBroadcastPlan(pair.a, pair.b);
      std::vector<float> a(static_cast<size_t>(pair.a.elements()));
      std::vector<float> b(static_cast<size_t>(pair.b.elements()));
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 97) - 31.5f;
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 89) * 0.25f + 1;
      std::vector<float> want(static_cast<size_t>(out->elements()));
      Binary(BinaryOp::kSub, DType::kF32, plan, a.data(), b.data(), want.data(), team);
      if (pair.a == *out) {
        std::vector<float> y = a;
        Binary(BinaryOp::kSub, DType::kF32, plan, y.data(), b.data(), y.data(), team);
        EXPECT_EQ(y, want) << pair.a.ToString() << pair.b.ToString();
      }
      if (pair.b == *out) {
        std::vector<float> y = b;
        Binary(BinaryOp::kSub, DType::kF32, plan, a.data(), y.data(), y.data(), team);
        EXPECT_EQ(y, want) << pair.a.ToString() << pair.b.ToString();
      }
    }
  });
}

TEST(Binary, HasZero) {
  const int64_t x[3] = {1, -1, 0};
  EXPECT_TRUE(HasZero(DType::kI64, x, 3));
  EXPECT_FALSE(HasZero(DType::kI64, x, 2));
  EXPECT_FALSE(HasZero(DType::kI64, x, 0));
  const float f[1] = {0};
  EXPECT_FALSE(HasZero(DType::kF32, f, 1));
}

template <class T, class E>
std::vector<T> RunPow(const std::vector<T>& a, const std::vector<E>& b) {
  const BroadcastPlan plan =
      MakeBroadcastPlan({static_cast<int64_t>(a.size())}, {static_cast<int64_t>(b.size())});
  std::vector<T> out(static_cast<size_t>(plan.elements));
  Team team(1);
  Pow(kDTypeOf<T>, kDTypeOf<E>, plan, a.data(), b.data(), out.data(), team);
  return out;
}

TEST(Pow, Integers) {
  using I32 = std::vector<int32_t>;
  EXPECT_EQ((RunPow<int32_t, int32_t>({2, -3, 7, 0, 0}, {10, 3, 0, 0, 5})),
            (I32{1024, -27, 1, 1, 0}));
  EXPECT_EQ((RunPow<int32_t, int64_t>({2, 1, -1, -1, 0}, {-1, -5, -5, -4, -1})),
            (I32{0, 1, -1, 1, 0}));
  EXPECT_EQ((RunPow<int32_t, int32_t>({3}, {40})), (I32{static_cast<int32_t>(0x291fe821)}));
  EXPECT_EQ((RunPow<uint8_t, uint64_t>({3, 255}, {UINT64_MAX, UINT64_MAX})),
            (std::vector<uint8_t>{171, 255}));
  EXPECT_EQ((RunPow<int64_t, float>({2, 9}, {0.5f})), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ((RunPow<int32_t, double>({10}, {-1.0})), (I32{0}));
}

TEST(Pow, Floats) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-inf, -2.5f, -0.0f, 0.0f, 0.7f, 3.0f, inf};
  for (float e : {2.0f, 1.0f, 0.5f, -1.0f, 3.0f, 0.0f, -0.5f, 1.7f}) {
    const std::vector<float> scalar = RunPow<float, float>(x, {e});
    const std::vector<float> full = RunPow<float, float>(x, std::vector<float>(x.size(), e));
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::pow(static_cast<double>(x[i]), static_cast<double>(e));
      EXPECT_LE(UlpError(scalar[i], want), 1) << x[i] << "^" << e;
      EXPECT_LE(UlpError(full[i], want), 1) << x[i] << "^" << e;
    }
  }
  EXPECT_EQ((RunPow<float, int32_t>({2, 3, -2}, {3, 2, 3})), (std::vector<float>{8, 9, -8}));
  EXPECT_EQ((RunPow<float, int64_t>({1.5f}, {2})), (std::vector<float>{2.25f}));
  EXPECT_EQ((RunPow<double, float>({1.1}, {2.0f})), (std::vector<double>{1.1 * 1.1}));
  EXPECT_EQ((RunPow<float, double>({2}, {0.1})),
            (std::vector<float>{static_cast<float>(std::pow(2.0, 0.1))}));
  const std::vector<F16> h = RunPow<F16, F16>({F16(2.0f), F16(3.0f)}, {F16(2.0f)});
  EXPECT_EQ(static_cast<float>(h[1]), 9.0f);
}

TEST(Pow, EveryPairBroadcasts) {
  const Shape sa = {2, 1, 700};
  const Shape sb = {3, 1};
  const BroadcastPlan plan = MakeBroadcastPlan(sa, sb);
  for (DType base : {DType::kF32, DType::kF64, DType::kF16, DType::kI32, DType::kI64}) {
    for (DType exponent : {DType::kF32, DType::kF64, DType::kF16, DType::kI32, DType::kU8}) {
      SCOPED_TRACE(std::string(Name(base)) + "^" + std::string(Name(exponent)));
      DispatchType(base, [&]<class T>() {
        DispatchType(exponent, [&]<class E>() {
          std::vector<T> a;
          for (int i = 0; i < 1400; ++i) a.push_back(static_cast<T>(1 + i % 6));
          const std::vector<E> b = {static_cast<E>(0), static_cast<E>(2), static_cast<E>(3)};
          if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<E, bool>) {
            const std::vector<T> got = RunTeams<T>(4200, [&](Team& team, T* out) {
              Pow(base, exponent, plan, a.data(), b.data(), out, team);
            });
            for (size_t i = 0; i < got.size(); ++i) {
              const int64_t at = static_cast<int64_t>(i);
              const double want = std::pow(
                  static_cast<double>(a[static_cast<size_t>(SourceIndex(plan.shape, sa, at))]),
                  static_cast<double>(b[static_cast<size_t>(SourceIndex(plan.shape, sb, at))]));
              ASSERT_EQ(static_cast<double>(got[i]), want) << i;  // small integers: exact
            }
          }
        });
      });
    }
  }
}

TEST(Where, EveryShapeAndSize) {
  const std::vector<std::array<Shape, 3>> shapes = {{Shape{}, Shape{}, Shape{}},
                                                    {Shape{7}, Shape{7}, Shape{7}},
                                                    {Shape{3, 1}, Shape{1, 41}, Shape{}},
                                                    {Shape{41}, Shape{3, 1}, Shape{41}},
                                                    {Shape{2, 3, 9}, Shape{9}, Shape{3, 1}},
                                                    {Shape{5, 1}, Shape{5, 20}, Shape{5, 20}},
                                                    {Shape{5, 1}, Shape{1, 20}, Shape{1}},
                                                    {Shape{0, 3}, Shape{3}, Shape{}},
                                                    {Shape{300, 200}, Shape{}, Shape{300, 200}}};
  for (const auto& s : shapes) {
    const BroadcastPlan3 plan = MakeBroadcastPlan(s[0], s[1], s[2]);
    const size_t n = static_cast<size_t>(plan.elements);
    std::vector<unsigned char> cond(static_cast<size_t>(s[0].elements()));
    for (size_t i = 0; i < cond.size(); ++i) cond[i] = (i * 2654435761u >> 7) & 1;
    const auto check = [&]<class T>() {
      const std::vector<T> a = RandomValues<T>(static_cast<size_t>(s[1].elements()), 1, true);
      const std::vector<T> b = RandomValues<T>(static_cast<size_t>(s[2].elements()), 2, true);
      const bool* c = reinterpret_cast<const bool*>(cond.data());
      const std::vector<T> got = RunTeams<T>(
          n, [&](Team& team, T* out) { Where(sizeof(T), plan, c, a.data(), b.data(), out, team); });
      for (size_t i = 0; i < n; ++i) {
        const int64_t at = static_cast<int64_t>(i);
        const T want = c[SourceIndex(plan.shape, s[0], at)]
                           ? a[static_cast<size_t>(SourceIndex(plan.shape, s[1], at))]
                           : b[static_cast<size_t>(SourceIndex(plan.shape, s[2], at))];
        ASSERT_EQ(got[i], want);
      }
    };
    check.template operator()<uint8_t>();
    check.template operator()<uint16_t>();
    check.template operator()<uint32_t>();
    check.template operator()<uint64_t>();
  }
}

}  // namespace
}  // namespace parallax::kernels
