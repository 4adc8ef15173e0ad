#include "router/token_estimator.h"

#include <gtest/gtest.h>

#include <random>

namespace parallax::router {
namespace {

TEST(TokenEstimator, CountsBytesByClass) {
  const ByteCounts counts = CountBytes("a\xE4\xB8\xAD b\x80");
  EXPECT_EQ(counts.ascii, 3);
  EXPECT_EQ(counts.other, 4);
}

TEST(TokenEstimator, StartsFromTheStatedPrior) {
  const TokenEstimator estimator;
  const TokenEstimate e = estimator.Estimate("m", {.ascii = 4000, .other = 0});
  EXPECT_EQ(e.tokens, 1000);
  EXPECT_EQ(e.error_pct, 100);
  EXPECT_EQ(e.observations, 0);
  EXPECT_EQ(estimator.Estimate("m", {.ascii = 0, .other = 300}).tokens, 100);
  EXPECT_EQ(estimator.Estimate("m", {}).tokens, 0);
  EXPECT_EQ(estimator.Estimate("m", {.ascii = 1, .other = 0}).tokens, 1);
}

// English at 4.5 bytes a token and Chinese at 2.2, mixed: both are told apart.
TEST(TokenEstimator, LearnsBothClasses) {
  TokenEstimator estimator;
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const ByteCounts bytes{static_cast<int64_t>(random() % 5000),
                           static_cast<int64_t>(random() % 3000)};
    const double tokens =
        static_cast<double>(bytes.ascii) / 4.5 + static_cast<double>(bytes.other) / 2.2;
    const double noise = std::normal_distribution<double>(1, 0.05)(random);
    estimator.Observe("m", bytes, std::max<int64_t>(1, static_cast<int64_t>(tokens * noise)));
  }
  const TokenEstimate english = estimator.Estimate("m", {.ascii = 45'000, .other = 0});
  const TokenEstimate chinese = estimator.Estimate("m", {.ascii = 0, .other = 22'000});
  // 5% of noise over about 100 effective pairs: 1% at two standard deviations; the floor of the
  // token count adds a little at short texts.
  EXPECT_NEAR(static_cast<double>(english.tokens), 10'000, 200);
  EXPECT_NEAR(static_cast<double>(chinese.tokens), 10'000, 200);
  // The mean absolute deviation of 5% normal noise is 4%.
  EXPECT_NEAR(english.error_pct, 4, 2);
  EXPECT_EQ(english.observations, 200);
  // Another model knows nothing of it.
  EXPECT_EQ(estimator.Estimate("other", {.ascii = 4000, .other = 0}).tokens, 1000);
}

TEST(TokenEstimator, OneClassLeavesTheOtherAtItsPrior) {
  TokenEstimator estimator;
  for (int i = 0; i < 100; ++i) estimator.Observe("m", {.ascii = 3000, .other = 0}, 1000);
  EXPECT_NEAR(static_cast<double>(estimator.Estimate("m", {.ascii = 30'000, .other = 0}).tokens),
              10'000, 10);
  EXPECT_NEAR(static_cast<double>(estimator.Estimate("m", {.ascii = 0, .other = 30'000}).tokens),
              10'000, 1);
}

TEST(TokenEstimator, IgnoresAndBoundsNonsense) {
  TokenEstimator estimator;
  estimator.Observe("m", {.ascii = 0, .other = 0}, 5);
  estimator.Observe("m", {.ascii = 100, .other = 0}, 0);
  estimator.Observe("m", {.ascii = -100, .other = 200}, 5);
  EXPECT_EQ(estimator.size(), 0u);
  for (int i = 0; i < 1000; ++i) {
    estimator.Observe("m", {.ascii = 1, .other = 1}, INT64_MAX);
    estimator.Observe("m", {.ascii = INT64_MAX / 2, .other = 1}, 1);
  }
  const TokenEstimate e = estimator.Estimate("m", {.ascii = 1000, .other = 1000});
  EXPECT_GE(e.tokens, 2000 / 16);
  EXPECT_LE(e.tokens, 4000);
  EXPECT_GE(estimator.Estimate("m", {.ascii = INT64_MAX / 2, .other = INT64_MAX / 2}).tokens, 1);
}

TEST(TokenEstimator, ForgetsTheModelUsedLeast) {
  TokenEstimator estimator;
  for (size_t i = 0; i < 3 * TokenEstimator::kMaxModels; ++i) {
    estimator.Observe("keep", {.ascii = 3000, .other = 0}, 1000);
    estimator.Observe(std::to_string(i), {.ascii = 100, .other = 0}, 50);
  }
  EXPECT_EQ(estimator.size(), TokenEstimator::kMaxModels);
  EXPECT_GT(estimator.Estimate("keep", {.ascii = 1, .other = 0}).observations, 100);
}

}  // namespace
}  // namespace parallax::router
