// Adds rows to every second, third or fourth element of another: what a transposed convolution does with
// the products of taps along a row, where it has as many of them as its stride.
//
// Role:       internal to conv_transpose.
// Ownership:  borrows every pointer for the call; the rows of x and y do not overlap.
// Threads:    pure apart from y.
#pragma once

#include <cstdint>

namespace parallax::kernels {

inline constexpr int64_t kMinInterleaved = 2, kMaxInterleaved = 4;

// y[i * rows + r] += x[r * x_row + i] for i < n, r < rows. REQUIRES: rows in the range above.
void AddInterleaved(const float* x, int64_t x_row, int64_t rows, int64_t n, float* y);

}  // namespace parallax::kernels
