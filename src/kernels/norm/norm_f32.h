// SIMD rows of softmax and normalisation, f32, one thread.
//
// Role:       the inner loops of softmax.cc, row_norm.cc and channel_norm.cc.
// Threads:    pure.
// Invariants: out may be in.
#pragma once

#include <cstdint>

#include "kernels/norm/softmax.h"

namespace parallax::kernels {

// Neighbouring lines that the column functions handle together.
inline constexpr int64_t kNormColumns = 256;

// One line along memory.
void SoftmaxRowF32(SoftmaxKind kind, const float* in, float* out, int64_t n);
// `cols` <= kNormColumns lines across memory: element k of line c is at [k * stride + c].
void SoftmaxColumnsF32(SoftmaxKind kind, const float* in, float* out, int64_t axis, int64_t stride,
                       int64_t cols);

// out[i] = (in[i] - shift) * scale * gain[i] + bias[i]; gain null: 1, bias null: 0.
void NormalizeF32(const float* in, float* out, int64_t n, float shift, float scale,
                  const float* gain, const float* bias);
// out[i] = (in[i] - shift) * scale + offset.
void AffineF32(const float* in, float* out, int64_t n, float shift, float scale, float offset);

}  // namespace parallax::kernels
