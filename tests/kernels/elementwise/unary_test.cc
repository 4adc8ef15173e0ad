// Unary and Clip: values of every type, positions, lengths, teams, in place.
#include "kernels/elementwise/unary.h"

#include <cmath>
#include <functional>
#include <vector>

#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

constexpr UnaryParams kParams = {.alpha = 0.3f, .beta = 0.7f};

// An element's bits must not depend on its position or on the length around it.
TEST(Unary, BitsDoNotDependOnPosition) {
  const std::vector<float> x = Normal(300, 1, 3);
  ForEachTarget([&] {
    for (int k = 0; k <= static_cast<int>(UnaryOp::kGeluTanh); ++k) {
      const UnaryOp op = static_cast<UnaryOp>(k);
      std::vector<float> all(x.size());
      UnarySerial(op, DType::kF32, x.data(), all.data(), 300, kParams);
      for (size_t begin : {0, 1, 3, 17}) {
        for (size_t n : {0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 67}) {
          std::vector<float> y(n + 1, -77.0f);
          UnarySerial(op, DType::kF32, x.data() + begin, y.data(), static_cast<int64_t>(n),
                      kParams);
          for (size_t i = 0; i < n; ++i) {
            ASSERT_TRUE(SameBits(y[i], all[begin + i])) << "op " << k << " n " << n << " i " << i;
          }
          ASSERT_EQ(y[n], -77.0f) << "op " << k << " wrote past " << n;
        }
      }
    }
  });
}

TEST(Unary, SameForEveryTeamAndInPlace) {
  const size_t n = 70001;  // several tasks and a tail
  const std::vector<float> x = Normal(n, 2, 2);
  for (UnaryOp op : {UnaryOp::kExp, UnaryOp::kSin, UnaryOp::kRelu, UnaryOp::kTan}) {
    const std::vector<float> y = RunTeams<float>(n, [&](Team& team, float* out) {
      Unary(op, DType::kF32, x.data(), out, static_cast<int64_t>(n), {}, team);
    });
    std::vector<float> inplace = x;
    Team team(2);
    Unary(op, DType::kF32, inplace.data(), inplace.data(), static_cast<int64_t>(n), {}, team);
    EXPECT_EQ(std::memcmp(inplace.data(), y.data(), n * sizeof(float)), 0);
  }
}

struct FloatRow {
  UnaryOp op;
  std::function<double(double)> want;
};

// Every float operator whose error is not already measured in math_test.cc, on f64 against the
// formula, and on f32, f16 and bf16 against the rounded formula.
TEST(Unary, FloatTypesFollowTheFormulas) {
  const double a = static_cast<double>(kParams.alpha);
  const double b = static_cast<double>(kParams.beta);
  const auto clamp01 = [](double v) { return std::fmin(1, std::fmax(0, v)); };
  const std::vector<FloatRow> rows = {
      {UnaryOp::kAbs, [](double x) { return std::fabs(x); }},
      {UnaryOp::kNeg, [](double x) { return -x; }},
      {UnaryOp::kSign, [](double x) { return x > 0   ? 1.0
                                             : x < 0 ? -1.0
                                                     : 0.0; }},
      {UnaryOp::kRelu, [](double x) { return std::fmax(x, 0); }},
      {UnaryOp::kSquare, [](double x) { return x * x; }},
      {UnaryOp::kFloor, [](double x) { return std::floor(x); }},
      {UnaryOp::kCeil, [](double x) { return std::ceil(x); }},
      {UnaryOp::kRound, [](double x) { return std::nearbyint(x); }},
      {UnaryOp::kTrunc, [](double x) { return std::trunc(x); }},
      {UnaryOp::kSqrt, [](double x) { return std::sqrt(x); }},
      {UnaryOp::kReciprocal, [](double x) { return 1 / x; }},
      {UnaryOp::kTan, [](double x) { return std::tan(x); }},
      {UnaryOp::kAsin, [](double x) { return std::asin(x); }},
      {UnaryOp::kAcos, [](double x) { return std::acos(x); }},
      {UnaryOp::kAtan, [](double x) { return std::atan(x); }},
      {UnaryOp::kSinh, [](double x) { return std::sinh(x); }},
      {UnaryOp::kCosh, [](double x) { return std::cosh(x); }},
      {UnaryOp::kAsinh, [](double x) { return std::asinh(x); }},
      {UnaryOp::kAcosh, [](double x) { return std::acosh(x); }},
      {UnaryOp::kAtanh, [](double x) { return std::atanh(x); }},
      {UnaryOp::kExp, [](double x) { return std::exp(x); }},
      {UnaryOp::kLog, [](double x) { return std::log(x); }},
      {UnaryOp::kSin, [](double x) { return std::sin(x); }},
      {UnaryOp::kCos, [](double x) { return std::cos(x); }},
      {UnaryOp::kTanh, [](double x) { return std::tanh(x); }},
      {UnaryOp::kErf, [](double x) { return std::erf(x); }},
      {UnaryOp::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {UnaryOp::kSilu, [=](double x) { return x / (1 + std::exp(-a * x)); }},
      {UnaryOp::kLeakyRelu, [=](double x) { return x < 0 ? a * x : x; }},
      {UnaryOp::kElu, [=](double x) { return x < 0 ? a * (std::exp(x) - 1) : x; }},
      {UnaryOp::kSelu, [=](double x) { return b * (x <= 0 ? a * (std::exp(x) - 1) : x); }},
      {UnaryOp::kCelu,
       [=](double x) { return std::fmax(0, x) + std::fmin(0, a * (std::exp(x / a) - 1)); }},
      {UnaryOp::kAffine, [=](double x) { return a * x + b; }},
      {UnaryOp::kHardSigmoid, [=](double x) { return clamp01(a * x + b); }},
      {UnaryOp::kHardSwishAffine, [=](double x) { return a * (x * clamp01(x / 6 + 0.5)) + b; }},
      {UnaryOp::kHardSwish, [=](double x) { return x * clamp01(x / 6 + 0.5); }},
      {UnaryOp::kMish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {UnaryOp::kSoftplus, [](double x) { return std::log1p(std::exp(x)); }},
      {UnaryOp::kSoftsign, [](double x) { return x / (1 + std::fabs(x)); }},
      {UnaryOp::kThresholdedRelu, [=](double x) { return x > a ? x : 0; }},
      {UnaryOp::kShrink, [=](double x) { return x < -a  ? x + b
                                                : x > a ? x - b
                                                        : 0; }},
      {UnaryOp::kGelu, [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2))); }},
      {UnaryOp::kGeluTanh,
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       }},
  };
  const std::vector<float> x = Normal(203, 3, 1.5f);
  ForEachTarget([&] {
    for (const FloatRow& row : rows) {
      for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
        SCOPED_TRACE(std::string("op ") + std::to_string(static_cast<int>(row.op)) + " " +
                     std::string(Name(dtype)));
        ASSERT_TRUE(UnarySupports(row.op, dtype));
        DispatchType(dtype, [&]<class T>() {
          if constexpr (IsFloat(kDTypeOf<T>)) {
            // Four last places of T, of the result or of the terms it cancels from.
            const double eps = dtype == DType::kF64   ? 0x1p-52
                               : dtype == DType::kF32 ? 0x1p-23
                               : dtype == DType::kF16 ? 0x1p-10
                                                      : 0x1p-7;
            std::vector<T> in(x.begin(), x.end());
            std::vector<T> out(in.size());
            UnarySerial(row.op, dtype, in.data(), out.data(), static_cast<int64_t>(in.size()),
                        kParams);
            for (size_t i = 0; i < in.size(); ++i) {
              const double v = static_cast<double>(in[i]);
              const double want = row.want(v);
              const double got = static_cast<double>(out[i]);
              if (std::isnan(want)) {
                EXPECT_TRUE(std::isnan(got)) << v;
              } else if (std::isinf(want)) {
                EXPECT_EQ(got, want) << v;
              } else {
                EXPECT_NEAR(got, want, 4 * eps * (std::fabs(want) + std::fabs(v) + 0.01)) << v;
              }
            }
          }
        });
      }
    }
  });
}

template <class T>
std::vector<T> RunInteger(UnaryOp op, std::vector<T> in) {
  EXPECT_TRUE(UnarySupports(op, kDTypeOf<T>));
  std::vector<T> out(in.size());
  UnarySerial(op, kDTypeOf<T>, in.data(), out.data(), static_cast<int64_t>(in.size()));
  return out;
}

TEST(Unary, IntegersWrap) {
  EXPECT_EQ(RunInteger<int8_t>(UnaryOp::kAbs, {-128, -1, 0, 127}),
            (std::vector<int8_t>{-128, 1, 0, 127}));
  EXPECT_EQ(RunInteger<int32_t>(UnaryOp::kNeg, {INT32_MIN, 5}),
            (std::vector<int32_t>{INT32_MIN, -5}));
  EXPECT_EQ(RunInteger<int64_t>(UnaryOp::kAbs, {INT64_MIN, -7}),
            (std::vector<int64_t>{INT64_MIN, 7}));
  EXPECT_EQ(RunInteger<int64_t>(UnaryOp::kSign, {-9, 0, 9}), (std::vector<int64_t>{-1, 0, 1}));
  EXPECT_EQ(RunInteger<uint16_t>(UnaryOp::kNeg, {1, 0}), (std::vector<uint16_t>{65535, 0}));
  EXPECT_EQ(RunInteger<int16_t>(UnaryOp::kSquare, {-300}), (std::vector<int16_t>{24464}));
  EXPECT_EQ(RunInteger<uint8_t>(UnaryOp::kBitwiseNot, {0, 1, 255}),
            (std::vector<uint8_t>{255, 254, 0}));
  EXPECT_EQ(RunInteger<int32_t>(UnaryOp::kRelu, {-3, 4}), (std::vector<int32_t>{0, 4}));
}

TEST(Unary, Not) {
  const bool x[3] = {true, false, true};
  bool y[3];
  UnarySerial(UnaryOp::kNot, DType::kBool, x, y, 3);
  EXPECT_FALSE(y[0]);
  EXPECT_TRUE(y[1]);
  EXPECT_FALSE(y[2]);
}

TEST(Unary, Predicates) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float x[5] = {1, nan, inf, -inf, 0};
  const F16 h[5] = {F16(1.0f), F16(nan), F16(inf), F16(-inf), F16(0.0f)};
  const auto run = [&](UnaryOp op, DType dtype, const void* in, UnaryParams p) {
    bool y[5];
    UnarySerial(op, dtype, in, y, 5, p);
    return std::vector<bool>(y, y + 5);
  };
  using B = std::vector<bool>;
  for (DType dtype : {DType::kF32, DType::kF16}) {
    const void* in = dtype == DType::kF32 ? static_cast<const void*>(x) : h;
    EXPECT_EQ(run(UnaryOp::kIsNaN, dtype, in, {}), (B{false, true, false, false, false}));
    EXPECT_EQ(run(UnaryOp::kIsInf, dtype, in, {1, 1}), (B{false, false, true, true, false}));
    EXPECT_EQ(run(UnaryOp::kIsInf, dtype, in, {1, 0}), (B{false, false, false, true, false}));
    EXPECT_EQ(run(UnaryOp::kIsInf, dtype, in, {0, 1}), (B{false, false, true, false, false}));
  }
}

TEST(Unary, Support) {
  EXPECT_FALSE(UnarySupports(UnaryOp::kExp, DType::kI32));
  EXPECT_FALSE(UnarySupports(UnaryOp::kNot, DType::kI8));
  EXPECT_FALSE(UnarySupports(UnaryOp::kBitwiseNot, DType::kBool));
  EXPECT_FALSE(UnarySupports(UnaryOp::kAbs, DType::kString));
  EXPECT_TRUE(UnarySupports(UnaryOp::kAbs, DType::kU64));
}

TEST(Clip, FloatsAndIntegers) {
  ForEachTarget([] {
    Team team(1);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> x = {-5, -1, 0, 2, 9, nan};
    std::vector<float> y(6);
    const float lo = -1.5f;
    const float hi = 3;
    Clip(DType::kF32, x.data(), y.data(), 6, &lo, &hi, team);
    EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 5),
              (std::vector<float>{-1.5, -1, 0, 2, 3}));
    EXPECT_TRUE(std::isnan(y[5]));
    Clip(DType::kF32, x.data(), y.data(), 5, nullptr, &lo, team);
    EXPECT_EQ(y[4], -1.5f);
    EXPECT_EQ(y[0], -5.0f);
    Clip(DType::kF32, x.data(), y.data(), 5, &hi, &lo, team);  // lo > hi: hi wins
    EXPECT_EQ(y[0], -1.5f);
    EXPECT_EQ(y[4], -1.5f);
    std::vector<int64_t> i = {INT64_MIN, 3, INT64_MAX};
    const int64_t two = 2;
    Clip(DType::kI64, i.data(), i.data(), 3, &two, nullptr, team);
    EXPECT_EQ(i, (std::vector<int64_t>{2, 3, INT64_MAX}));
    std::vector<F16> h = {F16(-2.0f), F16(0.5f), F16(8.0f)};
    const F16 one(1.0f);
    Clip(DType::kF16, h.data(), h.data(), 3, nullptr, &one, team);
    EXPECT_EQ(static_cast<float>(h[0]), -2.0f);
    EXPECT_EQ(static_cast<float>(h[2]), 1.0f);
  });
}

}  // namespace
}  // namespace parallax::kernels
