// The instruction sets that every SIMD kernel of the project is compiled for.
//
// Role:       included by each kernel source before any Highway header, so that all of them agree;
//             Highway picks the best compiled target the CPU has at run time.
// Invariants: x86: the compiler's baseline (SSE2 code), SSE4, AVX2 and AVX3 (AVX-512 F BW CD DQ
//             VL). SSSE3 gains nothing over SSE4 on machines that exist, AVX3_DL only adds integer
//             operations that no kernel uses: each would cost compile time and code size alone.
//             Arm: NEON alone. Small machines that have SVE2 have it with the same 128 bits, where
//             GCC 12's code for it is the longer one (2.1 instructions an FMA in the matrix tile,
//             NEON 1.7). And one target is called directly, without a look at the CPU: Highway's
//             asks NEON machines for AES as well, which a Raspberry Pi 4 does not have.
// Example (a kernel source, compiled once per target):
//   #include "kernels/targets.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/elementwise/relu.cc"
//   #include <hwy/foreach_target.h>
//   #include <hwy/highway.h>
#pragma once

#if defined(HIGHWAY_HWY_DETECT_TARGETS_H_)
#error "kernels/targets.h must come before every Highway header"
#endif

// Names, not values: Highway defines them later. They are bits that do not exist on other CPUs.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
