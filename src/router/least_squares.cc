#include "router/least_squares.h"

#include <algorithm>
#include <cmath>

namespace parallax::router {
namespace {

// Pivots and gradients below this share of their scale (1 after normalisation) are rounding.
constexpr double kRounding = 1e-12;

// Solves the equations of the terms in `active` by Cholesky; a term whose pivot vanishes (it is a
// combination of earlier ones, or nothing determines it) gets 0.
Terms SolveActive(const std::array<Terms, kTerms>& a, const Terms& r,
                  const std::array<bool, kTerms>& active) {
  std::array<Terms, kTerms> l{};
  std::array<bool, kTerms> used{};
  Terms y{};
  for (size_t i = 0; i < kTerms; ++i) {
    if (!active[i]) continue;
    double pivot = a[i][i];
    double rest = r[i];
    for (size_t j = 0; j < i; ++j) {
      if (!used[j]) continue;
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= l[i][k] * l[j][k];
      l[i][j] = sum / l[j][j];
      pivot -= l[i][j] * l[i][j];
      rest -= l[i][j] * y[j];
    }
    if (pivot <= kRounding) continue;
    used[i] = true;
    l[i][i] = std::sqrt(pivot);
    y[i] = rest / l[i][i];
  }
  Terms x{};
  for (size_t i = kTerms; i-- > 0;) {
    if (!used[i]) continue;
    double sum = y[i];
    for (size_t k = i + 1; k < kTerms; ++k) {
      if (used[k]) sum -= l[k][i] * x[k];
    }
    x[i] = sum / l[i][i];
  }
  return x;
}

}  // namespace

void NormalEquations::AddRow(const Terms& x, double y, double weight) {
  for (size_t i = 0; i < kTerms; ++i) {
    const double wx = weight * x[i];
    for (size_t j = 0; j <= i; ++j) information[i][j] += wx * x[j];
    projection[i] += wx * y;
  }
}

void NormalEquations::Scale(double factor) {
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j <= i; ++j) information[i][j] *= factor;
    projection[i] *= factor;
  }
}

void NormalEquations::AddBelief(size_t i, double value, double weight) {
  information[i][i] += weight;
  projection[i] += weight * value;
}

Terms SolveNonNegative(const NormalEquations& system) {
  // Unit diagonal: the features differ by seven orders of magnitude.
  Terms scale{}, r{};
  for (size_t i = 0; i < kTerms; ++i) {
    const double d = system.information[i][i];
    scale[i] = d > 0 && std::isfinite(d) ? 1 / std::sqrt(d) : 0;
    r[i] = system.projection[i] * scale[i];
  }
  std::array<Terms, kTerms> a{};
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      a[i][j] = a[j][i] = system.information[i][j] * scale[i] * scale[j];
    }
  }
  double largest = 0;
  for (double v : r) largest = std::max(largest, std::abs(v));

  Terms x{};
  std::array<bool, kTerms> active{};
  // Each round adds one term and drops at most those that turn negative; 3n rounds are far more
  // than six terms ever take, and bound the loop where rounding would make it cycle.
  for (size_t round = 0; round < 3 * kTerms; ++round) {
    size_t best = kTerms;
    double best_gradient = kRounding * std::max(largest, 1e-300);
    for (size_t i = 0; i < kTerms; ++i) {
      if (active[i] || scale[i] == 0) continue;
      double gradient = r[i];
      for (size_t j = 0; j < kTerms; ++j) gradient -= a[i][j] * x[j];
      if (gradient > best_gradient) {
        best_gradient = gradient;
        best = i;
      }
    }
    if (best == kTerms) break;
    active[best] = true;
    for (size_t inner = 0; inner < kTerms; ++inner) {
      const Terms z = SolveActive(a, r, active);
      double step = 1;
      bool negative = false;
      for (size_t i = 0; i < kTerms; ++i) {
        if (!active[i] || z[i] > 0) continue;
        negative = true;
        step = std::min(step, x[i] > 0 ? x[i] / (x[i] - z[i]) : 0.0);
      }
      if (!negative) {
        x = z;
        break;
      }
      for (size_t i = 0; i < kTerms; ++i) {
        if (!active[i]) continue;
        x[i] += step * (z[i] - x[i]);
        if (z[i] <= 0 && x[i] <= kRounding * std::max(largest, 1e-300)) {
          active[i] = false;
          x[i] = 0;
        }
      }
    }
  }
  Terms b{};
  for (size_t i = 0; i < kTerms; ++i) {
    const double v = x[i] * scale[i];
    b[i] = v > 0 && std::isfinite(v) ? v : 0;
  }
  return b;
}

double Dot(const Terms& x, const Terms& b) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += x[i] * b[i];
  return sum;
}

}  // namespace parallax::router
