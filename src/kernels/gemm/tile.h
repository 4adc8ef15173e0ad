// TileArgs: what one register tile of a matrix product reads and writes.
//
// Role:       between panel.cc (the loops over a block) and tile-inl.h (the inner kernel).
// Ownership:  borrows every pointer.
// Threads:    a value type.
// Invariants: the vectors at `b`, `c`, `residual` and `column_bias` are whole, but for last_columns: the
//             caller copies the last partial columns of a matrix to and from scratch.
#pragma once

#include <cstdint>

namespace parallax::kernels {

inline constexpr int64_t kFetchSteps = 2;
inline constexpr int kRowPanels = 4;  // that a single row takes together (row_tile-inl.h)

struct TileArgs {
  // a(r, i) is a[r * a_row + i * a_k]; b(i, j) is b[i * b_k + j], for i < k.
  const float* a = nullptr;
  int64_t a_row = 0, a_k = 0;
  const float* b = nullptr;
  int64_t b_k = 0;
  int64_t k = 0;
  // Convolution: the sum runs over `taps` such matrices, b's starting at b + tap_offsets[tap] and
  // a's following each other: a(r, tap * k + i). Null: one matrix.
  int64_t taps = 1;
  const int64_t* tap_offsets = nullptr;
  // Not null: row r of tap `tap` starts at a_rows[tap * a_tap + r] + a_offset instead of following
  // from a and a_row.
  const float* const* a_rows = nullptr;
  int64_t a_tap = 0, a_offset = 0;
  // Not null: what will be read soon. A line of it is fetched into L2 every kFetchSteps steps of
  // k, `fetch_step` floats apart. Any address will do.
  const float* fetch = nullptr;
  int64_t fetch_step = 0;
  // Floats before its turn that B is fetched, in tiles of few rows.
  int64_t ahead = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t rows = 0;  // to store, at most the kernel's height
  // Not 0: columns of the last vector that exist, where kTilesMask; REQUIRES: nothing but a column bias
  // is added.
  int64_t last_columns = 0;

  // c = clamp(alpha * sum + beta * (bias + residual)); accumulate: clamp(alpha * sum + c).
  float alpha = 1.0f, beta = 1.0f;
  bool accumulate = false;
  bool clamp = false;  // to [lo, hi], on the last block of k only
  float lo = 0.0f, hi = 0.0f;
  const float* row_bias = nullptr;
  int64_t row_bias_step = 1;  // 0: one value for all rows
  const float* column_bias = nullptr;
  const float* residual = nullptr;  // c's layout
};

}  // namespace parallax::kernels
