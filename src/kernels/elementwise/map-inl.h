// Applies a function of vectors to a range of f32, with the tail as a padded vector.
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
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// `n` is a multiple of the vector length. f is called as f(d, v).
template <class F>
HWY_NOINLINE void MapVectors(const float* in, float* out, size_t n, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, in + i)), d, out + i);
}

template <class F>
HWY_INLINE void Map(const float* in, float* out, size_t n, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t body = n - n % lanes;
  MapVectors(in, out, body, f);
  if (body == n) return;
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, in + body, (n - body) * sizeof(float));
  MapVectors(buffer, buffer, lanes, f);
  std::memcpy(out + body, buffer, (n - body) * sizeof(float));
}

// As Map for two inputs: out[i] = f(d, a[i * stride_a], b[i * stride_b]), strides 0 or 1.
template <bool kStepA, bool kStepB, class F>
HWY_NOINLINE void ZipVectors(const float* a, const float* b, float* out, size_t n, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  if constexpr (kStepA && kStepB) {
    for (size_t i = 0; i < n; i += lanes) {
      hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
    }
  } else if constexpr (kStepA) {
    const auto vb = hn::Set(d, *b);
    for (size_t i = 0; i < n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, a + i), vb), d, out + i);
  } else {
    const auto va = hn::Set(d, *a);
    for (size_t i = 0; i < n; i += lanes) hn::StoreU(f(d, va, hn::LoadU(d, b + i)), d, out + i);
  }
}

template <bool kStepA, bool kStepB, class F>
HWY_INLINE void ZipKind(const float* a, const float* b, float* out, size_t n, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t body = n - n % lanes;
  ZipVectors<kStepA, kStepB>(a, b, out, body, f);
  if (body == n) return;
  HWY_ALIGN float tail_a[hn::MaxLanes(d)] = {};
  HWY_ALIGN float tail_b[hn::MaxLanes(d)] = {};
  if constexpr (kStepA) std::memcpy(tail_a, a + body, (n - body) * sizeof(float));
  if constexpr (kStepB) std::memcpy(tail_b, b + body, (n - body) * sizeof(float));
  ZipVectors<kStepA, kStepB>(kStepA ? tail_a : a, kStepB ? tail_b : b, tail_a, lanes, f);
  std::memcpy(out + body, tail_a, (n - body) * sizeof(float));
}

template <class F>
HWY_INLINE void Zip(const float* a, bool step_a, const float* b, bool step_b, float* out, size_t n,
                    F f) {
  if (step_a && step_b) return ZipKind<true, true>(a, b, out, n, f);
  if (step_a) return ZipKind<true, false>(a, b, out, n, f);
  if (step_b) return ZipKind<false, true>(a, b, out, n, f);
  // Both repeated: one value, computed once.
  if (n == 0) return;
  ZipKind<true, true>(a, b, out, 1, f);
  for (size_t i = 1; i < n; ++i) out[i] = out[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // PARALLAX_KERNELS_ELEMENTWISE_MAP_INL_H_
