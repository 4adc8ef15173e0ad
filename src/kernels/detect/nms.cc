#include "kernels/detect/nms.h"

#include <algorithm>
#include <limits>

#include "kernels/detect/overlap_f32.h"

namespace parallax::kernels {
namespace {

struct Candidate {
  float score;
  int32_t index;
};

// For a heap whose top is the best one.
bool Worse(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score < b.score : a.index > b.index;
}

Rect ToRect(BoxFormat format, const float* b) {
  Rect r;
  if (format == BoxFormat::kCenter) {
    const float half_w = b[2] / 2, half_h = b[3] / 2;
    r = {b[1] - half_h, b[0] - half_w, b[1] + half_h, b[0] + half_w, 0};
  } else {
    r = {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3]), 0};
  }
  r.area = (r.y1 - r.y0) * (r.x1 - r.x0);
  return r;
}

int64_t Capacity(int64_t n, int64_t max_boxes) { return std::clamp<int64_t>(max_boxes, 0, n); }

}  // namespace

size_t NmsScratchBytes(int64_t n, int64_t max_boxes) {
  return static_cast<size_t>(n) * sizeof(Candidate) +
         static_cast<size_t>(RectList::Floats(Capacity(n, max_boxes))) * sizeof(float);
}

int64_t SelectBoxes(const NmsParams& params, const float* boxes, const float* scores, int64_t n,
                    std::byte* scratch, int32_t* selected) {
  Candidate* heap = reinterpret_cast<Candidate*>(scratch);
  int64_t candidates = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float score = scores[i];
    if (params.has_score_threshold && !(score > params.score_threshold)) continue;
    // NaN would break the order.
    const float key = score == score ? score : -std::numeric_limits<float>::infinity();
    heap[candidates++] = {key, static_cast<int32_t>(i)};
  }
  std::make_heap(heap, heap + candidates, Worse);
  const int64_t capacity = Capacity(n, params.max_boxes);
  const RectList kept(reinterpret_cast<float*>(heap + n), capacity);
  int64_t count = 0;
  while (candidates > 0 && count < capacity) {
    std::pop_heap(heap, heap + candidates, Worse);
    const int32_t index = heap[--candidates].index;
    const Rect rect = ToRect(params.format, boxes + 4 * int64_t{index});
    if (OverlapsAny(kept, count, rect, params.iou_threshold)) continue;
    kept.Set(count, rect);
    selected[count++] = index;
  }
  return count;
}

}  // namespace parallax::kernels
