// Clamp of a vector through which NaN passes; compiled once per target.
//
// Role:       the end of every fused product and convolution.
// Threads:    pure.
#if defined(PARALLAX_KERNELS_CLAMP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_CLAMP_INL_H_
#undef PARALLAX_KERNELS_CLAMP_INL_H_
#else
#define PARALLAX_KERNELS_CLAMP_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// min(max(x, lo), hi), and NaN where x is NaN. REQUIRES: lo and hi are no NaN.
template <class D, class V>
HWY_INLINE V Clamp(D, V x, V lo, V hi) {
#if HWY_ARCH_X86 && HWY_TARGET < HWY_EMU128
  // Gives the second operand where one is NaN.
  return hn::Min(hi, hn::Max(lo, x));
#else
#if HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON
  // FMAX and FMIN give NaN; Highway's Max and Min are FMAXNM and FMINNM, which give the number.
  if constexpr (std::is_same_v<V, hn::Vec<hn::ScalableTag<float>>>) {
    return V(vminq_f32(hi.raw, vmaxq_f32(lo.raw, x.raw)));
  }
#endif
  x = hn::IfThenElse(hn::Lt(x, lo), lo, x);
  return hn::IfThenElse(hn::Gt(x, hi), hi, x);
#endif
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
