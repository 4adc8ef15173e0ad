// The arithmetic between gates of recurrent cells on f32 rows, on SIMD.
//
// Role:       internal to recurrent.cc; best target chosen at run time.
// Ownership:  borrows its pointers; rows do not overlap unless they are the same.
// Threads:    pure apart from outputs.
// Cost:       one pass over n values each.
#pragma once

#include <cstdint>

namespace parallax::kernels {

void CellAdd(const float* a, const float* b, float* out, int64_t n);     // a + b
void CellMul(const float* a, const float* b, float* out, int64_t n);     // a b
void CellMulAdd(const float* a, const float* b, float* sum, int64_t n);  // sum + a b
void CellOneMinus(const float* a, float* out, int64_t n);                // 1 - a
void CellAffine(float scale, float offset, float* x, int64_t n);         // scale x + offset
// c = f c + i g.
void CellLstmState(const float* i, const float* f, const float* g, float* c, int64_t n);
// n = x + r h, GRU's candidate with linear_before_reset: h = R_h h_prev + bias; bias may be null.
void CellGruLinear(const float* x, const float* r, const float* h, const float* bias, float* out,
                   int64_t n);
// h = (1 - z) g + z h.
void CellGruBlend(const float* z, const float* g, float* h, int64_t n);

}  // namespace parallax::kernels
