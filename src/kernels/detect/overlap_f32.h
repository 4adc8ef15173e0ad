// Whether a rectangle overlaps any of a list, on SIMD.
//
// Role:       the inner loop of non-maximum suppression.
// Ownership:  a RectList borrows its memory.
// Threads:    pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace parallax::kernels {

struct Rect {
  float y0, x0, y1, x1, area;
};

// Rectangles by column, so that a vector holds one coordinate of several. Filled from the front;
// vectors read whole blocks, so each block starts as rectangles without area.
class RectList {
 public:
  static constexpr int64_t kBlock = 64;  // no vector has more f32 lanes (SVE: 2048 bits)

  // Floats of memory for `capacity` rectangles.
  static int64_t Floats(int64_t capacity) { return 5 * Stride(capacity); }
  RectList(float* memory, int64_t capacity) : columns_(memory), stride_(Stride(capacity)) {}

  // Sets rectangle i. REQUIRES: those before it were set.
  void Set(int64_t i, const Rect& r) const {
    const float values[] = {r.y0, r.x0, r.y1, r.x1, r.area};
    for (int64_t k = 0; k < 5; ++k) {
      float* at = columns_ + k * stride_ + i;
      if (i % kBlock == 0) std::fill(at, at + kBlock, 0.0f);
      *at = values[k];
    }
  }
  const float* columns() const { return columns_; }  // y0, x0, y1, x1, area
  int64_t stride() const { return stride_; }         // floats from one column to the next

 private:
  static int64_t Stride(int64_t capacity) { return (capacity + kBlock - 1) / kBlock * kBlock; }
  float* columns_;
  int64_t stride_;
};

// Whether common area / united area with any of the first `count` is above `threshold`, in f32.
// Rectangles that do not touch, or whose area is not above 0, do not overlap.
bool OverlapsAny(const RectList& list, int64_t count, const Rect& rect, float threshold);

}  // namespace parallax::kernels
