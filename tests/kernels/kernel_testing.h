// Helpers of the kernel tests: every SIMD target, every team size, distances in last places, data.
//
// Role:       shared by tests/kernels/{elementwise,reduce,norm,move,resize}.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "tests/kernels/simd_targets.h"
#include "threads/team.h"

namespace parallax::kernels {

// Calls f() once for every compiled SIMD target that this CPU can run, and names it in failures.
template <class F>
void ForEachTarget(F&& f) {
  for (const int64_t target : testing::SimdTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// A team of 1 to 4, made once: starting threads costs more than most tests.
inline Team& SharedTeam(int size) {
  static Team teams[4] = {Team(1), Team(2), Team(3), Team(4)};
  return teams[size - 1];
}

// Runs f(team, out) with teams of 1 to 4 on fresh outputs of `bytes` bytes, checks that all agree
// bit for bit and that nothing past the end was written; returns the output.
template <class T, class F>
std::vector<T> RunTeams(size_t elements, F&& f) {
  constexpr size_t kGuard = 64;
  std::vector<T> first;
  for (int size : {1, 2, 3, 4}) {
    std::vector<unsigned char> bytes(elements * sizeof(T) + kGuard, 0xa5);
    f(SharedTeam(size), reinterpret_cast<T*>(bytes.data()));
    for (size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(bytes[elements * sizeof(T) + i], 0xa5) << "written past the end, team " << size;
    }
    std::vector<T> out(elements);
    if (elements > 0) std::memcpy(out.data(), bytes.data(), elements * sizeof(T));
    if (size == 1) {
      first = out;
    } else if (elements > 0) {
      EXPECT_EQ(std::memcmp(first.data(), out.data(), elements * sizeof(T)), 0)
          << "other bits with a team of " << size;
    }
  }
  return first;
}

// |got - want| in units in the last place of f32 around `want` (denormals: the smallest step);
// 0 for equal infinities or two NaN, infinite where one is special and the other is not.
inline double UlpError(float got, double want) {
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want) ? 0 : std::numeric_limits<double>::infinity();
  }
  // What rounding would make infinite may be infinite.
  const float rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  if (std::isinf(got)) {
    return want * (got > 0 ? 1 : -1) > 3.4028235e38 * (1 - 1e-7)
               ? 1
               : std::numeric_limits<double>::infinity();
  }
  if (std::isinf(want)) return std::numeric_limits<double>::infinity();
  const double magnitude = std::abs(want);
  const int exponent = magnitude < 0x1p-126 ? -126 : std::ilogb(magnitude);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

inline bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// n seeded values of N(0, scale).
inline std::vector<float> Normal(size_t n, uint32_t seed, float scale = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng);
  return v;
}

// n seeded values of any element type: floats of N(0, 2), integers over a small range or, with
// `wide`, the whole one.
template <class T>
std::vector<T> RandomValues(size_t n, uint32_t seed, bool wide = false) {
  std::mt19937_64 rng(seed);
  std::vector<T> v(n);
  std::normal_distribution<double> normal(0, 2);
  for (size_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, bool>) {
      v[i] = (rng() & 1) != 0;
    } else if constexpr (std::is_integral_v<T>) {
      const uint64_t bits = rng();
      v[i] = wide ? static_cast<T>(bits)
                  : static_cast<T>(static_cast<int64_t>(bits % 15) - (std::is_signed_v<T> ? 7 : 0));
    } else {
      v[i] = static_cast<T>(normal(rng));
    }
  }
  return v;
}

// A copy of `v` that starts `shift` bytes into its buffer: elements that are only as aligned as
// their type.
template <class T>
struct Shifted {
  explicit Shifted(const std::vector<T>& v, size_t elements = 1)
      : bytes((v.size() + elements) * sizeof(T)) {
    data = reinterpret_cast<T*>(bytes.data()) + elements;
    if (!v.empty()) std::memcpy(data, v.data(), v.size() * sizeof(T));
  }
  std::vector<unsigned char> bytes;
  T* data;
};

}  // namespace parallax::kernels
