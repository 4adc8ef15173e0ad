#include "kernels/resize/blend_f32.h"

#include <cstddef>
#include <cstring>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/resize/blend_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void BlendTarget(const float* in, int64_t stride, const int32_t* index, const float* weight,
                 int taps, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  if (taps == 2) {
    const float* a = in + index[0] * stride;
    const float* b = in + index[1] * stride;
    const auto wa = hn::Set(d, weight[0]);
    const auto wb = hn::Set(d, weight[1]);
    for (; i + lanes <= n; i += lanes) {
      const auto y = hn::MulAdd(hn::LoadU(d, b + i), wb, hn::Mul(hn::LoadU(d, a + i), wa));
      hn::StoreU(y, d, out + i);
    }
  }
  for (; i < n; i += lanes) {
    // The last vector may overlap the one before it: every element is computed from inputs alone.
    if (i + lanes > n) {
      if (n < lanes) break;
      i = n - lanes;
    }
    auto y = hn::Mul(hn::LoadU(d, in + index[0] * stride + i), hn::Set(d, weight[0]));
    for (int t = 1; t < taps; ++t) {
      y = hn::MulAdd(hn::LoadU(d, in + index[t] * stride + i), hn::Set(d, weight[t]), y);
    }
    hn::StoreU(y, d, out + i);
  }
  for (; i < n; ++i) {  // rows shorter than a vector
    float y = in[index[0] * stride + static_cast<int64_t>(i)] * weight[0];
    for (int t = 1; t < taps; ++t) y += in[index[t] * stride + static_cast<int64_t>(i)] * weight[t];
    out[i] = y;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {

HWY_EXPORT(BlendTarget);

void BlendF32(const float* in, int64_t stride, const int32_t* index, const float* weight, int taps,
              float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(BlendTarget)
  (in, stride, index, weight, taps, out, static_cast<size_t>(n));
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
