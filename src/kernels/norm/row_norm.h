// Layer, RMS and Lp normalisation: each row by its own statistics.
//
// Role:       ONNX LayerNormalization, RMSNormalization, LpNormalization.
// Ownership:  borrows its pointers; out may be in.
// Threads:    splits over the caller's team by rows.
// Cost:       two or three passes over a row; f32 on SIMD; allocates nothing.
// Invariants: the same bits for every team size. Statistics add short f32 runs in f64 (reduce.h
//             has the bound); the variance is that of x - mean, so it does not cancel.
// Example:
//   LayerNorm(DType::kF32, rows, cols, x, scale, bias, 1e-5f, y, nullptr, nullptr, team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

// y[r, c] = (x[r, c] - mean_r) / sqrt(var_r + epsilon) * scale[c] + bias[c]. scale and bias have
// `cols` elements of `dtype`, or are null (1 and 0). mean and inv_std, if wanted, get `rows`
// elements: f64 for a dtype of f64, else f32.
void LayerNorm(DType dtype, int64_t rows, int64_t cols, const void* in, const void* scale,
               const void* bias, float epsilon, void* out, void* mean, void* inv_std, Team& team);

// y[r, c] = x[r, c] / sqrt(mean_c(x[r, c]^2) + epsilon) * scale[c]. inv_rms as inv_std above.
void RmsNorm(DType dtype, int64_t rows, int64_t cols, const void* in, const void* scale,
             float epsilon, void* out, void* inv_rms, Team& team);

// y = x / norm_p(x) along the axis of [outer, axis, inner], p 1 or 2; zeros where the norm is 0.
void LpNormalize(DType dtype, int64_t outer, int64_t axis, int64_t inner, int p, const void* in,
                 void* out, Team& team);

}  // namespace parallax::kernels
