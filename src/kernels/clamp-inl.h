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

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// min(max(x, lo), hi), and NaN where x is NaN. REQUIRES: lo and hi are no NaN.
template <class D, class V>
HWY_INLINE V Clamp(D, V x, V lo, V hi) {
#if (HWY_ARCH_X86 && HWY_TARGET < HWY_EMU128) || (HWY_ARCH_ARM_A64 && HWY_TARGET < HWY_EMU128)
  // x86 gives the second operand where one is NaN, Arm gives NaN.
  return hn::Min(hi, hn::Max(lo, x));
#else
  x = hn::IfThenElse(hn::Lt(x, lo), lo, x);
  return hn::IfThenElse(hn::Gt(x, hi), hi, x);
#endif
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
