// FlushSubnormals: weights too small to matter, as zeros.
//
// Role:       trained networks leave thousands of weights below 1e-38 behind (weight decay), and each
//             product with one takes a CPU 100 cycles and more instead of half a one: in PaddleOCR's
//             recognition 0.3% of the weights cost 4% of the time. As zeros they change a sum by less than
//             1.2e-38 times its largest factor.
// Threads:    pure apart from `x`.
#pragma once

#include <cstdint>

namespace parallax::kernels {

// Subnormal values of x[0..n) become zeros of their sign.
void FlushSubnormals(float* x, int64_t n);

}  // namespace parallax::kernels
