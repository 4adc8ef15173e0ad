#include "kernels/conv/add_interleaved.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/add_interleaved.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void AddInterleavedImpl(const float* x, int64_t x_row, int64_t rows, int64_t n, float* y) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto at = [&](int64_t r) HWY_ATTR { return hn::LoadU(d, x + r * x_row + i); };
  auto y0 = hn::Zero(d), y1 = y0, y2 = y0, y3 = y0;
  for (; i + lanes <= n; i += lanes) {
    float* to = y + i * rows;
    if (rows == 2) {
      hn::LoadInterleaved2(d, to, y0, y1);
      hn::StoreInterleaved2(hn::Add(y0, at(0)), hn::Add(y1, at(1)), d, to);
    } else if (rows == 3) {
      hn::LoadInterleaved3(d, to, y0, y1, y2);
      hn::StoreInterleaved3(hn::Add(y0, at(0)), hn::Add(y1, at(1)), hn::Add(y2, at(2)), d, to);
    } else {
      hn::LoadInterleaved4(d, to, y0, y1, y2, y3);
      hn::StoreInterleaved4(hn::Add(y0, at(0)), hn::Add(y1, at(1)), hn::Add(y2, at(2)),
                            hn::Add(y3, at(3)), d, to);
    }
  }
#endif
  for (; i < n; ++i) {
    for (int64_t r = 0; r < rows; ++r) y[i * rows + r] += x[r * x_row + i];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(AddInterleavedImpl);
}  // namespace

void AddInterleaved(const float* x, int64_t x_row, int64_t rows, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(AddInterleavedImpl)(x, x_row, rows, n, y);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
