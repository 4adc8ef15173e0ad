#include "ops/fma_peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/fma_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::bench {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// 12 independent chains cover latency * throughput (4 * 2); returns the FLOPs done.
double Chains(int64_t rounds, float seed, float* sink) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, seed), b = hn::Set(d, 1.0f - seed);
  // Different starts: equal chains would be one chain to the compiler.
  const auto start = [&](float i) HWY_ATTR { return hn::Set(d, seed * i); };
  auto c0 = start(0), c1 = start(1), c2 = start(2), c3 = start(3), c4 = start(4), c5 = start(5);
  auto c6 = start(6), c7 = start(7), c8 = start(8), c9 = start(9), ca = start(10), cb = start(11);
  for (int64_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b);
    c1 = hn::MulAdd(c1, a, b);
    c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b);
    c4 = hn::MulAdd(c4, a, b);
    c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b);
    c7 = hn::MulAdd(c7, a, b);
    c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b);
    ca = hn::MulAdd(ca, a, b);
    cb = hn::MulAdd(cb, a, b);
  }
  const auto s0 = hn::Add(hn::Add(c0, c1), hn::Add(c2, c3));
  const auto s1 = hn::Add(hn::Add(c4, c5), hn::Add(c6, c7));
  const auto s2 = hn::Add(hn::Add(c8, c9), hn::Add(ca, cb));
  *sink = hn::GetLane(hn::Add(s0, hn::Add(s1, s2)));
  return static_cast<double>(rounds) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::bench {
namespace {
HWY_EXPORT(Chains);
}  // namespace

double MeasureFmaPeak() {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  volatile float seed = 0.999f;
  volatile float keep = 0;
  for (int round = 0; round < 20; ++round) {
    float sink = 0;
    const auto start = Clock::now();
    const double flops = HWY_DYNAMIC_DISPATCH(Chains)(200000, seed, &sink);
    const std::chrono::duration<double> took = Clock::now() - start;
    keep = sink;
    best = std::max(best, flops / took.count() * 1e-9);
  }
  static_cast<void>(keep);
  return best;
}

}  // namespace parallax::bench
#endif  // HWY_ONCE
