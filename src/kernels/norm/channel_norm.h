// Group, instance and batch normalisation, and local response normalisation, on [N, C, spatial].
//
// Role:       ONNX GroupNormalization, InstanceNormalization, BatchNormalization (inference), LRN.
// Ownership:  borrows its pointers; out may be in (not for Lrn).
// Threads:    splits over the caller's team by groups or channels.
// Cost:       GroupNorm three passes over a group, the others one; f32 on SIMD; allocates nothing.
// Invariants: the same bits for every team size; statistics as in row_norm.h.
// Example:
//   GroupNorm(DType::kF32, n, c, h * w, groups, x, scale, bias, 1e-5f, y, team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

// y = (x - mean_g) / sqrt(var_g + epsilon) * scale[c] + bias[c], statistics over the channels of
// group g and all of spatial. scale and bias have `channels` elements of `dtype`. groups ==
// channels is instance normalisation. REQUIRES: groups divides channels.
void GroupNorm(DType dtype, int64_t batch, int64_t channels, int64_t spatial, int64_t groups,
               const void* in, const void* scale, const void* bias, float epsilon, void* out,
               Team& team);

// y = (x - mean[c]) / sqrt(var[c] + epsilon) * scale[c] + bias[c]. `param` is the type of scale and
// bias, `stat` that of mean and var. Computed as x * s + t with s and t found in f64 and rounded
// once to f32 (for f64 kept).
void BatchNorm(DType dtype, DType param, DType stat, int64_t batch, int64_t channels,
               int64_t spatial, const void* in, const void* scale, const void* bias,
               const void* mean, const void* var, float epsilon, void* out, Team& team);

// y = x / (bias + alpha / size * sum x_j^2)^beta over channels j in [c - (size - 1) / 2,
// c + ceil((size - 1) / 2)], cut at the ends (ONNX LRN).
void Lrn(DType dtype, int64_t batch, int64_t channels, int64_t spatial, int64_t size, float alpha,
         float beta, float bias, const void* in, void* out, Team& team);

}  // namespace parallax::kernels
