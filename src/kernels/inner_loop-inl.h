// What the inner loops of products and convolutions share; compiled once per target.
//
// Role:       number of registers, a product added to a sum, and hints that keep GCC from spilling.
// Threads:    pure.
#if defined(PARALLAX_KERNELS_INNER_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_INNER_LOOP_INL_H_
#undef PARALLAX_KERNELS_INNER_LOOP_INL_H_
#else
#define PARALLAX_KERNELS_INNER_LOOP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Whether there are 32 registers of vectors, not 16.
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_RVV;

// sum += a * b, rounded once where the target can, and the sum stays in its register: GCC may let it
// move to that of a factor, and spills sums when these come round (up to 15% of a product).
template <class V>
HWY_INLINE void AddProduct(V a, V b, V& sum) {
  static_assert(sizeof(hn::TFromV<V>) == sizeof(float));
#if HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#else
  sum = hn::MulAdd(a, b, sum);
#endif
}

// The value, of which the compiler is told nothing: else GCC keeps an address for every step of an
// unrolled loop, more than there are registers for.
template <class T>
HWY_INLINE T Opaque(T x) {
#if HWY_COMPILER_GCC_ACTUAL
  asm("" : "+r"(x));
#endif
  return x;
}

HWY_INLINE void FetchToL2(const float* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
