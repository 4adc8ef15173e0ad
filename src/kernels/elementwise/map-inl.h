// Applies a function of vectors to a range of f32, the tail included.
//
// Role:       included once per SIMD target by the elementwise kernels.
// Threads:    pure.
// Invariants: the tail runs through the same machine code as the body, so an element's bits do not
//             depend on where it stands.
#if defined(PARALLAX_KERNELS_ELEMENTWISE_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_ELEMENTWISE_MAP_INL_H_
#undef PARALLAX_KERNELS_ELEMENTWISE_MAP_INL_H_
#else
#define PARALLAX_KERNELS_ELEMENTWISE_MAP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/elementwise/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// out[i] = f(d, in[i]). One copy of f serves whole vectors and the tail.
template <class F>
HWY_NOINLINE void Map(const float* in, float* out, size_t n, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  // Four vectors in step: a polynomial is one long chain, whose latency others have to hide.
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto y0 = f(d, hn::LoadU(d, in + i));
    const auto y1 = f(d, hn::LoadU(d, in + i + lanes));
    const auto y2 = f(d, hn::LoadU(d, in + i + 2 * lanes));
    const auto y3 = f(d, hn::LoadU(d, in + i + 3 * lanes));
    hn::StoreU(y0, d, out + i);
    hn::StoreU(y1, d, out + i + lanes);
    hn::StoreU(y2, d, out + i + 2 * lanes);
    hn::StoreU(y3, d, out + i + 3 * lanes);
  }
  for (; i < n; i += lanes) {
    const bool whole = i + lanes <= n;
    const auto y = f(d, whole ? hn::LoadU(d, in + i) : LoadTail(d, in + i, n - i));
    if (HWY_LIKELY(whole)) {
      hn::StoreU(y, d, out + i);
    } else {
      StoreTail(y, d, out + i, n - i);
    }
  }
}

// As Map for two inputs, each of which steps or repeats its first element.
template <bool kStepA, bool kStepB, class F>
HWY_NOINLINE void ZipKind(const float* a, const float* b, float* out, size_t n, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto va = hn::Set(d, *a);
  auto vb = hn::Set(d, *b);
  for (size_t i = 0; i < n; i += lanes) {
    const bool whole = i + lanes <= n;
    if constexpr (kStepA) va = whole ? hn::LoadU(d, a + i) : LoadTail(d, a + i, n - i);
    if constexpr (kStepB) vb = whole ? hn::LoadU(d, b + i) : LoadTail(d, b + i, n - i);
    const auto y = f(d, va, vb);
    if (HWY_LIKELY(whole)) {
      hn::StoreU(y, d, out + i);
    } else {
      StoreTail(y, d, out + i, n - i);
    }
  }
}

template <class F>
HWY_INLINE void Zip(const float* a, bool step_a, const float* b, bool step_b, float* out, size_t n,
                    F f) {
  if (n == 0) return;
  if (step_a && step_b) return ZipKind<true, true>(a, b, out, n, f);
  if (step_a) return ZipKind<true, false>(a, b, out, n, f);
  if (step_b) return ZipKind<false, true>(a, b, out, n, f);
  // Both repeated: one value, computed once.
  ZipKind<true, true>(a, b, out, 1, f);
  for (size_t i = 1; i < n; ++i) out[i] = out[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // PARALLAX_KERNELS_ELEMENTWISE_MAP_INL_H_
