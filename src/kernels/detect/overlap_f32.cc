#include "kernels/detect/overlap_f32.h"

#include <cstddef>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/detect/overlap_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

bool OverlapsAnyTarget(const float* columns, size_t stride, size_t count, const Rect& rect,
                       float threshold) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  const auto limit = hn::Set(d, threshold);
  const auto y0 = hn::Set(d, rect.y0), x0 = hn::Set(d, rect.x0);
  const auto y1 = hn::Set(d, rect.y1), x1 = hn::Set(d, rect.x1);
  const auto area = hn::Set(d, rect.area);
  for (size_t i = 0; i < count; i += lanes) {
    const auto column = [&](size_t k) HWY_ATTR { return hn::LoadU(d, columns + k * stride + i); };
    const auto height = hn::Sub(hn::Min(y1, column(2)), hn::Max(y0, column(0)));
    const auto width = hn::Sub(hn::Min(x1, column(3)), hn::Max(x0, column(1)));
    const auto other = column(4);
    const auto touch =
        hn::And(hn::And(hn::Gt(height, zero), hn::Gt(width, zero)), hn::Gt(other, zero));
    if (hn::AllFalse(d, touch)) continue;
    // The product is used twice, so no compiler can fuse it into the subtraction: every target
    // rounds alike.
    const auto common = hn::Mul(height, width);
    const auto ratio = hn::Div(common, hn::Sub(hn::Add(area, other), common));
    if (!hn::AllFalse(d, hn::And(touch, hn::Gt(ratio, limit)))) return true;
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {

HWY_EXPORT(OverlapsAnyTarget);

bool OverlapsAny(const RectList& list, int64_t count, const Rect& rect, float threshold) {
  if (!(rect.area > 0)) return false;
  return HWY_DYNAMIC_DISPATCH(OverlapsAnyTarget)(list.columns(), static_cast<size_t>(list.stride()),
                                                 static_cast<size_t>(count), rect, threshold);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
