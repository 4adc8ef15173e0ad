// CopyFloats, CopyEven: short copies without scalar tails, compiled once per target.
//
// The last vector overlaps the one before it; a count below one vector uses halves of it, down to
// four lanes. So a row of 14 floats is two loads and two stores, where a loop with a scalar tail
// takes 14 of each. Nothing outside [0, n) is read or written.

#if defined(PARALLAX_KERNELS_COPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_COPY_INL_H_
#undef PARALLAX_KERNELS_COPY_INL_H_
#else
#define PARALLAX_KERNELS_COPY_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void CopyFloatsBy(D d, const float* from, int64_t n, float* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n >= lanes) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < n) hn::StoreU(hn::LoadU(d, from + n - lanes), d, to + n - lanes);
  } else if constexpr (hn::MaxLanes(D()) > 4) {
    CopyFloatsBy(hn::Half<D>(), from, n, to);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

// to[i] = from[i], i < n; they must not overlap.
HWY_INLINE void CopyFloats(const float* from, int64_t n, float* to) {
  CopyFloatsBy(hn::ScalableTag<float>(), from, n, to);
}

template <class D>
HWY_INLINE void CopyEvenBy(D d, const float* from, int64_t n, float* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n > lanes) {
    hn::Vec<D> even, odd;
    // Strictly less: the neighbour of the last element may lie past the end.
    for (int64_t i = 0; i + lanes < n; i += lanes) {
      hn::LoadInterleaved2(d, from + 2 * i, even, odd);
      hn::StoreU(even, d, to + i);
    }
    // From one element earlier, the wanted ones are the odd ones, and the last is the last read.
    hn::LoadInterleaved2(d, from + 2 * (n - lanes) - 1, even, odd);
    hn::StoreU(odd, d, to + n - lanes);
  } else if constexpr (hn::MaxLanes(D()) > 4) {
    CopyEvenBy(hn::Half<D>(), from, n, to);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  }
}

// to[i] = from[2 * i], i < n; reads from[0] to from[2 * (n - 1)] only.
HWY_INLINE void CopyEven(const float* from, int64_t n, float* to) {
  CopyEvenBy(hn::ScalableTag<float>(), from, n, to);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
