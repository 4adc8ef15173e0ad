// Shared by the tests of GEMM, convolution and pooling: targets, guarded memory, error bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/simd_targets.h"
#include "threads/team.h"

namespace parallax::testing {

// Runs f(name) once for every SIMD target that is compiled in and that this CPU has.
template <class F>
void ForEachTarget(F&& f) {
  for (const int64_t target : SimdTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    f(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// `bytes` of memory, 64-byte aligned plus `offset`, between guards that CheckGuards verifies.
// Filled with NaN patterns, so that what nobody wrote shows.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t bytes, size_t offset = 0)
      : bytes_(bytes), storage_(bytes + 2 * kGuard + 128, 0xff) {
    const auto at = reinterpret_cast<uintptr_t>(storage_.data());
    start_ = (64 - at % 64) % 64 + kGuard + offset;
    memset(storage_.data(), kPattern, start_);
    memset(storage_.data() + start_ + bytes, kPattern, storage_.size() - start_ - bytes);
  }
  void* get() { return storage_.data() + start_; }
  float* floats() { return reinterpret_cast<float*>(storage_.data() + start_); }
  void CheckGuards() const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      if (i == start_ && bytes_ > 0) i += bytes_;
      ASSERT_EQ(storage_[i], kPattern) << "guard byte " << i << " of " << bytes_ << " overwritten";
    }
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr uint8_t kPattern = 0xa5;
  size_t bytes_;
  size_t start_ = 0;
  std::vector<uint8_t> storage_;
};

// A team of `size` 1..4 that lives as long as the program: starting threads would dominate the
// tests.
inline Team& TeamOf(int size) {
  static Team one(1), two(2), three(3), four(4);
  return size == 1 ? one : size == 2 ? two : size == 3 ? three : four;
}

inline std::vector<float> RandomFloats(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = uniform(generator);
  return v;
}

// gamma_n = n u / (1 - n u), u = 2^-24: the relative error of a sum of n products in any order,
// with or without fused operations, against sum |terms| (Higham, Accuracy and Stability,
// section 3.1).
inline double Gamma(int64_t n) {
  const double nu = static_cast<double>(n) * 0x1p-24;
  return nu / (1.0 - nu);
}

// A value in f64 and the sum of the magnitudes of its terms.
struct Sum {
  double value = 0, norm = 0;
  int64_t terms = 0;
  void Add(double term) {
    value += term;
    norm += std::abs(term);
    ++terms;
  }
  // The bound for f32: a few operations more than terms (alpha, beta, the epilogue), plus the
  // smallest subnormal for sums that underflow.
  double Bound() const { return Gamma(terms + 6) * norm + 1.5e-45; }
};

}  // namespace parallax::testing
