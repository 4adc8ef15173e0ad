// Weighted sums of f32 rows on SIMD, one thread.
//
// Role:       the inner loop of linear and cubic Resize.
// Threads:    pure.
#pragma once

#include <cstdint>

namespace parallax::kernels {

// out[i] = sum_t weight[t] * in[index[t] * stride + i], t in order.
void BlendF32(const float* in, int64_t stride, const int32_t* index, const float* weight, int taps,
              float* out, int64_t n);

}  // namespace parallax::kernels
