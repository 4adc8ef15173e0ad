// The accumulator of LogSumExp: a sum of exponentials relative to a shift.
//
// Role:       shared by the float and scalar reducers.
// Threads:    pure.
// Invariants: value = shift + log(sum); the shift is finite, so infinities live in the sum.
#pragma once

#include <cmath>
#include <limits>

namespace parallax::kernels {

struct ShiftedSum {
  double shift = std::numeric_limits<double>::lowest();
  double sum = 0;

  // A shift that is safe to subtract, for a run whose maximum is `max`.
  static double SafeShift(double max) { return std::isfinite(max) ? max : 0.0; }

  void Merge(const ShiftedSum& other) {
    const double top = shift > other.shift ? shift : other.shift;
    sum = Scaled(sum, shift - top) + Scaled(other.sum, other.shift - top);
    shift = top;
  }
  double Log() const { return shift + std::log(sum); }

 private:
  // Without infinity times zero.
  static double Scaled(double sum, double exponent) {
    return std::isfinite(sum) ? sum * std::exp(exponent) : sum;
  }
};

}  // namespace parallax::kernels
