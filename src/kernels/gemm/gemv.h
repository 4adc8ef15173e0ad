// Matrix times vector: the two forms that read a plain matrix once, in its storage order.
//
// Role:       internal to Gemm, for one row or one column of output without a packed operand.
// Ownership:  borrows every pointer for the call.
// Threads:    pure apart from the outputs.
// Cost:       bound by the memory that holds the matrix.
// Invariants: each sum's order depends on its length alone.
#pragma once

#include <cstdint>

namespace parallax::kernels {

// out[r] = sum over k of matrix[r * ld + k] * x[k], for r < rows.
void DotRows(const float* matrix, int64_t ld, int64_t rows, int64_t k, const float* x, float* out);

// out[j] = sum over r of x[r] * matrix[r * ld + j], for j < columns; r < rows.
void SumRows(const float* matrix, int64_t ld, int64_t rows, int64_t columns, const float* x,
             float* out);

}  // namespace parallax::kernels
