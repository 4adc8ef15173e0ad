// The parts of a Winograd convolution that work on vectors: transforms, products, weights.
//
// Role:       internal to conv; winograd.cc drives them.
// Ownership:  borrow every pointer for the call.
// Threads:    pure apart from what they write.
#pragma once

#include <cstddef>
#include <cstdint>

namespace parallax::kernels {

// The inputs of one tile.
struct WinogradInput {
  const float* x = nullptr;     // input row 0, column 0 of the tile, which padding may hold
  int64_t row = 0, column = 0;  // floats between rows and between columns
  int64_t channels = 0;
  // Rows and columns of the tile that lie in the input.
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  float* v = nullptr;  // point 0, channel 0
  int64_t point = 0;   // floats between points
};

// The outputs of one tile, for `channels` channels.
struct WinogradOutput {
  const float* m = nullptr;  // point 0, channel 0; whole vectors
  int64_t point = 0;
  int64_t channels = 0;
  float* y = nullptr;  // output row 0, column 0 of the tile
  int64_t row = 0, column = 0;
  int64_t rows = 0, columns = 0;  // that lie in the output
  const float* bias = nullptr;
  const float* residual = nullptr;  // at y's place; y itself is allowed
  bool clamp = false;
  float lo = 0, hi = 0;
};

// The products of all points: m[p][tile][column] = sum over k of v[p][tile][k] u[p][k][column].
struct WinogradProducts {
  const float* v = nullptr;
  const float* u = nullptr;
  float* m = nullptr;
  int64_t points = 0, tiles = 0, depth = 0;
  int64_t width = 0;               // columns of u and m: whole vectors, at most kWinogradVectors
  int64_t v_row = 0, v_point = 0;  // floats between tiles and between points
  int64_t m_point = 0;
};

// One panel of weights.
struct WinogradWeights {
  const std::byte* taps = nullptr;  // f32 [columns][depth][9], maybe misaligned
  int64_t depth = 0, columns = 0, width = 0;
  float* panel = nullptr;  // [point][depth][width], zeros past the columns
};

// `m` is 2 or 4: outputs along a side of a tile.
void WinogradInputTile(int64_t m, const WinogradInput& in);
void WinogradOutputTile(int64_t m, const WinogradOutput& out);
void WinogradMultiply(const WinogradProducts& products);
void WinogradPackPanel(int64_t m, const WinogradWeights& weights);

// Vectors of output channels that WinogradMultiply takes at once.
inline constexpr int64_t kWinogradVectors = 3;

}  // namespace parallax::kernels
