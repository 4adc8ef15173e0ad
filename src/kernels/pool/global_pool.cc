#include <limits>

#include "kernels/pool/pool.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/global_pool.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// A NaN wins and stays.
HWY_INLINE V MaxOf(V best, V x) {
  return hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
}

void MaxPlanes(int64_t first, int64_t last, int64_t n, const float* input, float* output) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t plane = first; plane < last; ++plane) {
    const float* x = input + plane * n;
    V m0 = hn::Set(d, -std::numeric_limits<float>::infinity()), m1 = m0;
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      m0 = MaxOf(m0, hn::LoadU(d, x + i));
      m1 = MaxOf(m1, hn::LoadU(d, x + i + lanes));
    }
    HWY_ALIGN float rest[hn::MaxLanes(D())];
    hn::Store(MaxOf(m0, m1), d, rest);
    float best = rest[0];
    for (int64_t j = 1; j < lanes; ++j)
      best = rest[j] > best || rest[j] != rest[j] ? rest[j] : best;
    for (; i < n; ++i) best = x[i] > best || x[i] != x[i] ? x[i] : best;
    output[plane] = best;
  }
}

void AveragePlanes(int64_t first, int64_t last, int64_t n, const float* input, float* output) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t plane = first; plane < last; ++plane) {
    const float* x = input + plane * n;
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      s0 = hn::Add(s0, hn::LoadU(d, x + i));
      s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
      s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * lanes));
      s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, hn::LoadU(d, x + i));
    float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    for (; i < n; ++i) sum += x[i];
    output[plane] = sum / static_cast<float>(n);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "base/checked.h"

namespace parallax::kernels {
namespace {
HWY_EXPORT(MaxPlanes);
HWY_EXPORT(AveragePlanes);

// Planes of one task: about 64 Ki elements.
int64_t PlanesPerTask(int64_t planes, int64_t plane) {
  return std::clamp<int64_t>((1 << 16) / std::max<int64_t>(plane, 1), 1,
                             std::max<int64_t>(planes, 1));
}

}  // namespace

void GlobalMaxPool(int64_t planes, int64_t plane, const float* input, float* output, Team& team) {
  const int64_t step = PlanesPerTask(planes, plane);
  team.Run(CeilDiv(planes, step), [&](int64_t task, int) {
    HWY_DYNAMIC_DISPATCH(MaxPlanes)
    (task * step, std::min((task + 1) * step, planes), plane, input, output);
  });
}

void GlobalAveragePool(int64_t planes, int64_t plane, const float* input, float* output,
                       Team& team) {
  const int64_t step = PlanesPerTask(planes, plane);
  team.Run(CeilDiv(planes, step), [&](int64_t task, int) {
    HWY_DYNAMIC_DISPATCH(AveragePlanes)
    (task * step, std::min((task + 1) * step, planes), plane, input, output);
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
