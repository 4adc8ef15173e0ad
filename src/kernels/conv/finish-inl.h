// The end of an output vector with channels last: residual, clamp, store; compiled once per target.
//
// Role:       included by the convolutions whose sums end in registers, channel by channel.
// Threads:    pure.
#if defined(PARALLAX_KERNELS_CONV_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_CONV_FINISH_INL_H_
#undef PARALLAX_KERNELS_CONV_FINISH_INL_H_
#else
#define PARALLAX_KERNELS_CONV_FINISH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/clamp-inl.h"
#include "kernels/elementwise/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// A whole vector at p, or its first n lanes.
template <class D>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const float* p, bool whole, size_t n) {
  return HWY_LIKELY(whole) ? hn::LoadU(d, p) : LoadTail(d, p, n);
}

// out = clamp(y + residual); residual at out's place or null. NaN passes the clamp.
template <class D, class V>
HWY_INLINE void FinishLanes(D d, V y, const float* residual, bool clamp, V lo, V hi, float* out,
                            bool whole, size_t n) {
  if (residual != nullptr) y = hn::Add(y, LoadLanes(d, residual, whole, n));
  if (clamp) y = Clamp(d, y, lo, hi);
  if (HWY_LIKELY(whole)) {
    hn::StoreU(y, d, out);
  } else {
    StoreTail(y, d, out, n);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
