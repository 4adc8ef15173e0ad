#include "router/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace parallax::router {
namespace {

double Objective(const NormalEquations& n, const Terms& b) {
  double value = 0;
  for (size_t i = 0; i < kTerms; ++i) {
    value -= n.projection[i] * b[i];
    for (size_t j = 0; j < kTerms; ++j) {
      value += 0.5 * b[i] * b[j] * (j <= i ? n.information[i][j] : n.information[j][i]);
    }
  }
  return value;
}

TEST(SolveNonNegative, RecoversANonNegativeSolutionExactly) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    Terms truth;
    for (double& t : truth) t = std::pow(10, 6 * uniform(random) - 3);
    NormalEquations n;
    for (int row = 0; row < 40; ++row) {
      Terms x;
      for (double& v : x) v = uniform(random);
      n.AddRow(x, Dot(x, truth), 1);
    }
    const Terms found = SolveNonNegative(n);
    // Conditioning of random rows is below 1e4; coefficients differ by up to 1e6.
    double norm = 0;
    for (double t : truth) norm = std::max(norm, t);
    for (size_t i = 0; i < kTerms; ++i) EXPECT_NEAR(found[i], truth[i], 1e-8 * norm);
  }
}

// The minimum over b >= 0 by its definition: the least over all 64 choices of which terms are zero.
TEST(SolveNonNegative, IsTheBestOfAllActiveSets) {
  std::mt19937 random(4);
  std::normal_distribution<double> normal(0, 1);
  int bound = 0;
  for (int trial = 0; trial < 300; ++trial) {
    NormalEquations n;
    for (int row = 0; row < 12; ++row) {
      Terms x;
      for (double& v : x) v = normal(random);
      n.AddRow(x, normal(random), 1);
    }
    const Terms found = SolveNonNegative(n);
    for (double b : found) {
      EXPECT_GE(b, 0);
      bound += b == 0;
    }
    const double best = Objective(n, found);
    // Any feasible point is no better: random ones, and small steps along every axis.
    for (int i = 0; i < 200; ++i) {
      Terms other = found;
      for (double& b : other) b = std::max(0.0, b + 0.3 * normal(random));
      EXPECT_GE(Objective(n, other), best - 1e-9);
    }
    for (size_t i = 0; i < kTerms; ++i) {
      for (double step : {1e-4, -1e-4}) {
        Terms other = found;
        other[i] = std::max(0.0, other[i] + step);
        EXPECT_GE(Objective(n, other), best - 1e-12);
      }
    }
  }
  EXPECT_GT(bound, 300);  // the bound matters in these
}

TEST(SolveNonNegative, UndeterminedDirectionsAreZeroAndNothingIsNaN) {
  EXPECT_EQ(SolveNonNegative({}), Terms{});
  NormalEquations one;
  one.AddRow({0, 2, 0, 0, 0, 0}, 6, 1);
  EXPECT_NEAR(SolveNonNegative(one)[1], 3, 1e-12);
  NormalEquations collinear;
  for (double x : {1.0, 2.0, 3.0}) collinear.AddRow({x, 2 * x, 0, 3 * x, 0, 0}, 6 * x, 1);
  const Terms found = SolveNonNegative(collinear);
  EXPECT_NEAR(found[0] + 2 * found[1] + 3 * found[3], 6, 1e-9);
  for (double b : found) EXPECT_TRUE(std::isfinite(b) && b >= 0);
  NormalEquations negative;
  negative.AddRow({1, 1, 1, 1, 1, 1}, -5, 1);
  EXPECT_EQ(SolveNonNegative(negative), Terms{});
  NormalEquations huge;
  huge.AddRow({1e150, 1e-150, 0, 1, 1, 1}, 1, 1);
  for (double b : SolveNonNegative(huge)) EXPECT_TRUE(std::isfinite(b) && b >= 0);
}

}  // namespace
}  // namespace parallax::router
