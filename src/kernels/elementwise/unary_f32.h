// The SIMD part of Unary and Clip: f32, one thread.
//
// Role:       called by unary.cc on blocks; best target chosen at run time.
// Threads:    pure.
#pragma once

#include <cstdint>

#include "kernels/elementwise/unary.h"

namespace parallax::kernels {

// False (nothing done) when `op` has no SIMD form: unary_scalar.h has it.
bool UnaryF32(UnaryOp op, const float* in, float* out, int64_t n, const UnaryParams& params);
void ClipF32(const float* in, float* out, int64_t n, float lo, float hi);

}  // namespace parallax::kernels
