// Error bounds of the f32 functions (math-inl.h), against f64 over dense sweeps and special values.
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/elementwise/unary.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Every kStride-th float pattern, both signs, so that all binades, denormals included, are met
// evenly; plus specials.
std::vector<float> AllBinades(uint32_t stride) {
  std::vector<float> v = {0.0f,       -0.0f,         kInf,          -kInf,      kNaN,
                          1.0f,       -1.0f,         0x1p-149f,     -0x1p-149f, 0x1p-126f,
                          -0x1p-126f, 3.4028235e38f, -3.4028235e38f};
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += stride) {
    float x;
    const uint32_t pattern = static_cast<uint32_t>(bits);
    std::memcpy(&x, &pattern, sizeof x);
    v.push_back(x);
    v.push_back(-x);
  }
  return v;
}

void AddRange(std::vector<float>& v, double lo, double hi, int n) {
  for (int i = 0; i <= n; ++i) v.push_back(static_cast<float>(lo + (hi - lo) * i / n));
}

struct Row {
  const char* name;
  UnaryOp op;
  UnaryParams params;
  std::function<double(double)> want;
  double ulp;                    // bound in last places of the result
  double relative_to_input = 0;  // plus this times |x| (functions with a harmless cancellation)
  double lo = -110, hi = 110;    // where the dense sweep looks closest
};

double Sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus64(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"exp", UnaryOp::kExp, {}, [](double x) { return std::exp(x); }, 1},
      {"log", UnaryOp::kLog, {}, [](double x) { return std::log(x); }, 1, 0, 0, 4},
      {"tanh", UnaryOp::kTanh, {}, [](double x) { return std::tanh(x); }, 1.5, 0, -10, 10},
      // exp carries 1 ulp, the sum half of one, the reciprocal 1; 0 below -87.
      {"sigmoid", UnaryOp::kSigmoid, {}, Sigmoid64, 2.5, 2e-40},
      {"erf", UnaryOp::kErf, {}, [](double x) { return std::erf(x); }, 1.5, 0, -5, 5},
      {"sin", UnaryOp::kSin, {}, [](double x) { return std::sin(x); }, 0.51, 0, -1000, 1000},
      {"cos", UnaryOp::kCos, {}, [](double x) { return std::cos(x); }, 0.51, 0, -1000, 1000},
      {"softplus", UnaryOp::kSoftplus, {}, Softplus64, 2},
      // x times a sigmoid of 2.5 ulp, rounded once more; 0 below -87.
      {"silu", UnaryOp::kSilu, {.alpha = 1}, [](double x) { return x * Sigmoid64(x); }, 3, 2e-38},
      {"elu", UnaryOp::kElu, {.alpha = 1}, [](double x) { return x < 0 ? std::expm1(x) : x; }, 1.5},
      {"selu",
       UnaryOp::kSelu,
       {.alpha = 1.67326319217681884765625f, .beta = 1.05070102214813232421875f},
       [](double x) {
         return 1.05070102214813232421875 *
                (x <= 0 ? 1.67326319217681884765625 * std::expm1(x) : x);
       },
       4},
      {"celu",
       UnaryOp::kCelu,
       {.alpha = 2},
       [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; },
       2},
      // exp carries 1 ulp, twice in the numerator, and four roundings follow.
      {"mish",
       UnaryOp::kMish,
       {},
       [](double x) { return x * std::tanh(Softplus64(x)); },
       6,
       0x1p-149},
      // 1 + erf cancels for negative x: erf near 1 has an absolute error of 4.4 2^-23 without FMA,
      // times |x| / 2.
      {"gelu",
       UnaryOp::kGelu,
       {},
       [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); },
       3,
       0x1.2p-22,
       -12,
       12},
      // The same of 2 ulp, and the rounding of the argument u enters through tanh'(u) u <= 0.45.
      {"gelu_tanh",
       UnaryOp::kGeluTanh,
       {},
       [](double x) {
         return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       },
       2,
       0x1.8p-23,
       -12,
       12},
  };
  return rows;
}

TEST(Math, ErrorsStayInsideTheirBounds) {
  std::vector<float> binades = AllBinades(4099);
  ForEachTarget([&] {
    for (const Row& row : Rows()) {
      std::vector<float> x = binades;
      AddRange(x, row.lo, row.hi, 200000);
      AddRange(x, -2, 2, 50000);
      std::vector<float> y(x.size());
      UnarySerial(row.op, DType::kF32, x.data(), y.data(), static_cast<int64_t>(x.size()),
                  row.params);
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        double want = row.want(static_cast<double>(x[i]));
        // x * 0 of an infinite x is NaN in the function's own formula.
        if (std::isinf(x[i]) && std::isnan(y[i]) && (want == 0 || std::isnan(want))) continue;
        const double allowed = row.relative_to_input * std::abs(static_cast<double>(x[i]));
        double error = UlpError(y[i], want);
        if (allowed > 0 && std::abs(static_cast<double>(y[i]) - want) <= allowed) error = 0;
        if (error > worst) {
          worst = error;
          at = x[i];
        }
      }
      EXPECT_LE(worst, row.ulp) << row.name << " at " << std::hexfloat << at << " (" << at << ")";
      RecordProperty(row.name, std::to_string(worst));
    }
  });
}

// Arguments past the vector reduction take another path; the largest floats and the ones whose
// remainder is smallest are the hard ones.
TEST(Math, SineOfLargeArguments) {
  const std::vector<float> x = {1e8f,
                                1.0000001e8f,
                                2.5e8f,
                                1e10f,
                                3.4028235e38f,
                                -1e20f,
                                0x1.921fb6p+0f,
                                0x1.921fb6p+1f,
                                0x1.b951f2p+18f,
                                0x1.2f5d7ap+10f,
                                -0x1.921fb6p+20f,
                                99999992.0f};
  ForEachTarget([&] {
    std::vector<float> s(x.size());
    std::vector<float> c(x.size());
    const int64_t n = static_cast<int64_t>(x.size());
    UnarySerial(UnaryOp::kSin, DType::kF32, x.data(), s.data(), n);
    UnarySerial(UnaryOp::kCos, DType::kF32, x.data(), c.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(UlpError(s[i], std::sin(static_cast<double>(x[i]))), 1.0) << x[i];
      EXPECT_LE(UlpError(c[i], std::cos(static_cast<double>(x[i]))), 1.0) << x[i];
    }
  });
}

TEST(Math, SpecialValues) {
  ForEachTarget([&] {
    const auto f = [](UnaryOp op, float x, UnaryParams p = {}) {
      float y;
      UnarySerial(op, DType::kF32, &x, &y, 1, p);
      return y;
    };
    EXPECT_EQ(f(UnaryOp::kExp, kInf), kInf);
    EXPECT_TRUE(SameBits(f(UnaryOp::kExp, -kInf), 0.0f));
    EXPECT_EQ(f(UnaryOp::kExp, 0.0f), 1.0f);
    EXPECT_EQ(f(UnaryOp::kExp, -103.0f), 0x1p-149f);
    EXPECT_EQ(f(UnaryOp::kLog, 0.0f), -kInf);
    EXPECT_EQ(f(UnaryOp::kLog, -0.0f), -kInf);
    EXPECT_EQ(f(UnaryOp::kLog, kInf), kInf);
    EXPECT_TRUE(SameBits(f(UnaryOp::kLog, 1.0f), 0.0f));
    EXPECT_TRUE(std::isnan(f(UnaryOp::kLog, -1.0f)));
    EXPECT_TRUE(std::isnan(f(UnaryOp::kLog, -kInf)));
    EXPECT_EQ(f(UnaryOp::kTanh, kInf), 1.0f);
    EXPECT_EQ(f(UnaryOp::kTanh, -kInf), -1.0f);
    EXPECT_EQ(f(UnaryOp::kErf, -kInf), -1.0f);
    EXPECT_EQ(f(UnaryOp::kSigmoid, kInf), 1.0f);
    EXPECT_TRUE(SameBits(f(UnaryOp::kSigmoid, -kInf), 0.0f));
    EXPECT_TRUE(std::isnan(f(UnaryOp::kSin, kInf)));
    for (UnaryOp op : {UnaryOp::kTanh, UnaryOp::kErf, UnaryOp::kSin, UnaryOp::kElu, UnaryOp::kRound,
                       UnaryOp::kFloor, UnaryOp::kCeil, UnaryOp::kTrunc, UnaryOp::kSqrt}) {
      EXPECT_TRUE(SameBits(f(op, -0.0f, {.alpha = 1}), -0.0f)) << static_cast<int>(op);
    }
    // Ties to even, and values too large to have a fraction.
    EXPECT_EQ(f(UnaryOp::kRound, 0.5f), 0.0f);
    EXPECT_EQ(f(UnaryOp::kRound, 1.5f), 2.0f);
    EXPECT_EQ(f(UnaryOp::kRound, 2.5f), 2.0f);
    EXPECT_TRUE(SameBits(f(UnaryOp::kRound, -0.3f), -0.0f));
    EXPECT_EQ(f(UnaryOp::kRound, 16777217.0f), 16777217.0f);
    EXPECT_EQ(f(UnaryOp::kFloor, -1e30f), -1e30f);
    EXPECT_EQ(f(UnaryOp::kCeil, kInf), kInf);
    EXPECT_TRUE(SameBits(f(UnaryOp::kCeil, -0.5f), -0.0f));
    EXPECT_EQ(f(UnaryOp::kFloor, 2147483904.0f), 2147483904.0f);
    EXPECT_EQ(f(UnaryOp::kSign, -kInf), -1.0f);
    EXPECT_TRUE(SameBits(f(UnaryOp::kSign, -0.0f), 0.0f));
    EXPECT_EQ(f(UnaryOp::kReciprocal, -0.0f), -kInf);
  });
}

TEST(Math, NaNGoesThrough) {
  ForEachTarget([&] {
    for (int k = 0; k <= static_cast<int>(UnaryOp::kGeluTanh); ++k) {
      float y = 0;
      UnarySerial(static_cast<UnaryOp>(k), DType::kF32, &kNaN, &y, 1, {.alpha = 1, .beta = 1});
      // ONNX's words for these two: NaN is neither above nor below a threshold, so the result is 0.
      const auto op = static_cast<UnaryOp>(k);
      if (op == UnaryOp::kThresholdedRelu || op == UnaryOp::kShrink) {
        EXPECT_EQ(y, 0.0f) << "operator " << k;
      } else {
        EXPECT_TRUE(std::isnan(y)) << "operator " << k;
      }
    }
  });
}

}  // namespace
}  // namespace parallax::kernels
