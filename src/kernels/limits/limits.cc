#include "kernels/limits/limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/allocator.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/limits/limits.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
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

// Sums `n` floats, a multiple of four vectors.
float SumRange(const float* p, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, p + i));
    s1 = hn::Add(s1, hn::LoadU(d, p + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, p + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, p + i + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(Chains);
HWY_EXPORT(SumRange);

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kRounds = 20;
constexpr int64_t kBufferBytes = int64_t{256} << 20;  // no cache of these machines is as large

}  // namespace

double MeasureFmaPeak(Team& team) {
  double best = 0;
  volatile float seed = 0.999f;
  volatile float keep = 0;
  for (int round = 0; round < kRounds; ++round) {
    double flops = 0;  // of one worker
    const auto start = Clock::now();
    team.Run(team.size(), [&](int64_t, int worker) {
      float sink = 0;
      const double done = HWY_DYNAMIC_DISPATCH(Chains)(200000, seed, &sink);
      if (worker == 0) {
        flops = done;
        keep = sink;
      }
    });
    best = std::max(best, flops * team.size() / Seconds(Clock::now() - start).count() * 1e-9);
  }
  static_cast<void>(keep);
  return best;
}

double MeasureReadBandwidth(Team& team) {
  Allocator& allocator = SystemAllocator();
  auto* buffer = static_cast<float*>(allocator.Allocate(static_cast<size_t>(kBufferBytes)));
  if (buffer == nullptr) return 0;
  const int64_t floats = kBufferBytes / 4, part = floats / 64;
  std::fill_n(buffer, floats, 1.0f);
  volatile float keep = 0;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    team.Run(64, [&](int64_t task, int worker) {
      const float sum = HWY_DYNAMIC_DISPATCH(SumRange)(buffer + task * part, part);
      if (worker == 0) keep = sum;
    });
    const double seconds = Seconds(Clock::now() - start).count();
    best = std::max(best, static_cast<double>(kBufferBytes) / seconds * 1e-9);
  }
  static_cast<void>(keep);
  allocator.Free(buffer, static_cast<size_t>(kBufferBytes));
  return best;
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
