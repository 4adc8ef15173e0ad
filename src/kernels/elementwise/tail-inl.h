// Loads and stores of fewer elements than a vector holds, touching no memory past them.
//
// Role:       included once per SIMD target by kernels whose rows end anywhere.
// Threads:    pure.
// Cost:       one masked instruction where the target has one that does not fault; else a copy of
//             the few elements. (A memcpy of variable size, inlined as `rep movs`, costs 20 ns.)
#if defined(PARALLAX_KERNELS_ELEMENTWISE_TAIL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_ELEMENTWISE_TAIL_INL_H_
#undef PARALLAX_KERNELS_ELEMENTWISE_TAIL_INL_H_
#else
#define PARALLAX_KERNELS_ELEMENTWISE_TAIL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#undef PARALLAX_MASKED_MEMORY
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_HAVE_SCALABLE
#define PARALLAX_MASKED_MEMORY 1
#else
#define PARALLAX_MASKED_MEMORY 0
#endif

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// p[0 .. n), then zeros. REQUIRES: n <= Lanes(d); 32-bit lanes.
template <class D>
HWY_INLINE hn::Vec<D> LoadTail(D d, const hn::TFromD<D>* p, size_t n) {
#if PARALLAX_MASKED_MEMORY
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < n; ++i) buffer[i] = p[i];
  return hn::Load(d, buffer);
#endif
}

// p[0 .. n) = the first n lanes of v.
template <class D>
HWY_INLINE void StoreTail(hn::Vec<D> v, D d, hn::TFromD<D>* p, size_t n) {
#if PARALLAX_MASKED_MEMORY
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  for (size_t i = 0; i < n; ++i) p[i] = buffer[i];
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // PARALLAX_KERNELS_ELEMENTWISE_TAIL_INL_H_
