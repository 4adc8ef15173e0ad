#include "router/latency_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace parallax::router {
namespace {

// papers/psr-pcar.txt, table 3.
LatencyModel Paper(bool npu) {
  LatencyModel m;
  m.form = ModelForm::kPaper;
  m.source = ModelSource::kFitted;
  m.beta = npu ? std::array<double, 6>{-5413.74, 11.27, 148.53, 0.033, 1.54, 2324.03}
               : std::array<double, 6>{-5041.47, 24.71, 58.56, 0.014, 1.15, 2846.87};
  m.p = {512, 3072};
  m.g = {64, 512};
  m.p_cache = {0, 3072};
  m.observations = 60;
  return m;
}

TEST(Workload, FollowsTheDefinitions) {
  const Workload w = MakeWorkload(1024, 32, 256);
  EXPECT_EQ(w.cache, CacheState::kPrefix);
  EXPECT_EQ(w.Effective(), 768);
  EXPECT_EQ(w.AttentionWork(), 768.0 * (256 + 384));
  EXPECT_EQ(w.DecodeWork(), 32.0 * (1024 + 16));
  EXPECT_EQ(MakeWorkload(1024, 32, 0).cache, CacheState::kNone);
  EXPECT_EQ(MakeWorkload(1024, 32, 1024).cache, CacheState::kExact);
  EXPECT_EQ(MakeWorkload(1024, 32, 5000).cached_tokens, 1024);
  EXPECT_EQ(MakeWorkload(-1, -1, -1), Workload{});
  EXPECT_EQ(MakeWorkload(0, 5, 3).cache, CacheState::kNone);
}

TEST(LatencyModel, PaperFormIsEquation8) {
  // By hand: -5041.47 + 24.71*768 + 58.56*128 + 0.014*1024*128 + 1.15*256 + 2846.87
  const Prediction t = Predict(Paper(false), MakeWorkload(1024, 128, 256));
  EXPECT_NEAR(t.raw_total_ms, -5041.47 + 18977.28 + 7495.68 + 1835.008 + 294.4 + 2846.87, 1e-9);
  EXPECT_NEAR(t.decode_ms, 7495.68 + 1835.008, 1e-9);
  EXPECT_NEAR(t.prefill_ms + t.decode_ms, t.total_ms, 1e-9);
  // The first token: one of g, and the context that it reads.
  EXPECT_NEAR(t.ttft_ms, t.prefill_ms + 58.56 + 0.014 * 1024, 1e-9);
  EXPECT_EQ(t.outside, 0);
}

TEST(LatencyModel, ExtendedFormIsTheDesigns) {
  LatencyModel m;
  m.beta = {7.0, 2.924, 0.000895, 8.30, 0.00238, 11};
  // p_eff 768, A = 768 * 640 = 491520, D = 128 * 1088 = 139264.
  const Prediction t = Predict(m, MakeWorkload(1024, 128, 256));
  EXPECT_NEAR(t.prefill_ms, 7 + 2245.632 + 439.9104 + 11, 1e-9);
  EXPECT_NEAR(t.decode_ms, 1062.4 + 331.44832, 1e-9);
  EXPECT_NEAR(t.ttft_ms, t.prefill_ms + 8.30 + 0.00238 * 1024.5, 1e-9);
  EXPECT_EQ(t.outside, kOutsidePrompt | kOutsideGenerate | kOutsideCached);  // never measured
}

TEST(LatencyModel, NegativeInterceptsClampButStayComparable) {
  const Workload tiny = MakeWorkload(64, 8, 0);
  const Prediction cpu = Predict(Paper(false), tiny), npu = Predict(Paper(true), tiny);
  EXPECT_LT(cpu.raw_total_ms, 0);
  EXPECT_EQ(cpu.total_ms, 0);
  EXPECT_EQ(cpu.ttft_ms, 0);
  EXPECT_EQ(npu.total_ms, 0);
  EXPECT_NE(cpu.raw_total_ms, npu.raw_total_ms);
  EXPECT_EQ(cpu.outside, kOutsidePrompt | kOutsideGenerate);
  // A prefill below zero under a total above it: all is decoding.
  const Prediction decode = Predict(Paper(false), MakeWorkload(128, 512, 0));
  EXPECT_EQ(decode.prefill_ms, 0);
  EXPECT_EQ(decode.decode_ms, decode.total_ms);
}

TEST(LatencyModel, NeverPredictsNonsense) {
  LatencyModel m;
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(),
                     -std::numeric_limits<double>::infinity(), 1e300}) {
    for (size_t i = 0; i < 6; ++i) {
      m.beta = {1, 1, 1, 1, 1, 1};
      m.beta[i] = bad;
      const Prediction t = Predict(m, MakeWorkload(1 << 20, 1 << 20, 1 << 10));
      for (double v : {t.prefill_ms, t.decode_ms, t.total_ms, t.raw_total_ms, t.ttft_ms}) {
        EXPECT_TRUE(std::isfinite(v));
      }
      EXPECT_GE(t.total_ms, kUnpredictableMs);
    }
  }
}

TEST(LatencyModel, NothingToGenerateHasNoFirstToken) {
  const Prediction t = Predict(PriorModel(BackendKind::kOpenAi), MakeWorkload(100, 0, 0));
  EXPECT_EQ(t.decode_ms, 0);
  EXPECT_EQ(t.ttft_ms, t.prefill_ms);
}

// The property that makes the prior safe: no device of the profile is predicted faster than
// measured. Rates are table 3's; fixed terms are negative there and left out.
TEST(LatencyModel, PriorsAreSlowAndSaneAtEveryScale) {
  for (BackendKind kind : {BackendKind::kLlamaServer, BackendKind::kOpenAi, BackendKind::kRkllm}) {
    const LatencyModel m = PriorModel(kind);
    EXPECT_EQ(m.source, ModelSource::kPrior);
    double last = 0;
    for (int64_t p : {1, 10, 100, 1000, 10'000, 100'000}) {
      const Prediction t = Predict(m, MakeWorkload(p, 10, 0));
      EXPECT_GT(t.total_ms, last);
      last = t.total_ms;
      const LatencyModel paper = Paper(kind == BackendKind::kRkllm);
      if (p >= 512 && p <= 3072) {
        EXPECT_GT(t.total_ms, Predict(paper, MakeWorkload(p, 10, 0)).total_ms);
      }
    }
    EXPECT_LT(Predict(m, MakeWorkload(1000, 10, 900)).total_ms,
              Predict(m, MakeWorkload(1000, 10, 0)).total_ms);
  }
}

// The extended form cannot be the paper's (no negative intercept, no price of the cached length),
// but must rank the backends of table 3 the same way wherever they differ clearly.
TEST(LatencyModel, ConversionOfThePaperFormKeepsItsDecisions) {
  const LatencyModel cpu = Paper(false), npu = Paper(true);
  const LatencyModel cpu_extended = ToExtended(cpu), npu_extended = ToExtended(npu);
  EXPECT_EQ(cpu_extended.form, ModelForm::kExtended);
  EXPECT_EQ(cpu_extended.p, cpu.p);
  EXPECT_EQ(ToExtended(cpu_extended), cpu_extended);
  int clear = 0, same = 0;
  double error = 0;
  int rows = 0;
  for (int64_t p : {512, 1024, 2048, 3072}) {
    for (int64_t g : {64, 256, 512}) {
      for (int quarter = 0; quarter <= 4; ++quarter) {
        const Workload w = MakeWorkload(p, g, p * quarter / 4);
        const double a = Predict(cpu, w).total_ms, b = Predict(npu, w).total_ms;
        const double c = Predict(cpu_extended, w).total_ms, d = Predict(npu_extended, w).total_ms;
        error += std::abs(c - a) / a + std::abs(d - b) / b;
        rows += 2;
        if (std::abs(a - b) < 0.2 * std::min(a, b)) continue;
        ++clear;
        same += (a < b) == (c < d);
      }
    }
  }
  EXPECT_GT(clear, 40);
  EXPECT_EQ(same, clear);
  EXPECT_LT(error / rows, 0.10);
  for (double b : cpu_extended.beta) EXPECT_GE(b, 0);
  for (double b : npu_extended.beta) EXPECT_GE(b, 0);
}

}  // namespace
}  // namespace parallax::router
