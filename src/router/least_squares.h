// Weighted least squares with non-negative coefficients, for the six terms of a latency model.
//
// Role:       the solver under OnlineFit, ToExtended and the offline fit.
// Ownership:  values.
// Threads:    pure.
// Cost:       AddRow 21 multiply-adds; SolveNonNegative a few microseconds.
// Invariants: a solution is finite and >= 0 for any finite, positive semi-definite system.
// Example:
//   NormalEquations n;
//   for (...) n.AddRow(Features(ModelForm::kExtended, w), t_ms, /*weight=*/1 / (t_ms * t_ms));
//   std::array<double, 6> beta = SolveNonNegative(n);
#pragma once

#include <array>
#include <cstddef>

namespace parallax::router {

inline constexpr size_t kTerms = 6;
using Terms = std::array<double, kTerms>;

struct NormalEquations {
  std::array<Terms, kTerms> information{};  // sum of weight x x^T
  Terms projection{};                       // sum of weight x y

  void AddRow(const Terms& x, double y, double weight);
  void Scale(double factor);
  // Adds `weight` times the belief that coefficient i is `value`.
  void AddBelief(size_t i, double value, double weight);
};

// Minimises b'Nb / 2 - b'r over b >= 0, where N and r are the two sums. Directions that no row
// determines get 0.
// Source: active set after Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23.
Terms SolveNonNegative(const NormalEquations& system);

// sum of x_i b_i.
double Dot(const Terms& x, const Terms& b);

}  // namespace parallax::router
