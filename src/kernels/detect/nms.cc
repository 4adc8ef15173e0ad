#include "kernels/detect/nms.h"

#include <algorithm>

namespace parallax::kernels {
namespace {

struct Rect {
  float y0, x0, y1, x1;
};

Rect ToRect(BoxFormat format, const float* b) {
  if (format == BoxFormat::kCenter) {
    const float half_w = b[2] / 2, half_h = b[3] / 2;
    return {b[1] - half_h, b[0] - half_w, b[1] + half_h, b[0] + half_w};
  }
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

}  // namespace

float IntersectionOverUnion(BoxFormat format, const float* a, const float* b) {
  const Rect p = ToRect(format, a), q = ToRect(format, b);
  const float area_p = (p.y1 - p.y0) * (p.x1 - p.x0), area_q = (q.y1 - q.y0) * (q.x1 - q.x0);
  const float height = std::min(p.y1, q.y1) - std::max(p.y0, q.y0);
  const float width = std::min(p.x1, q.x1) - std::max(p.x0, q.x0);
  if (!(height > 0) || !(width > 0) || !(area_p > 0) || !(area_q > 0)) return 0;
  const float common = height * width;
  return common / (area_p + area_q - common);
}

int64_t SelectBoxes(const NmsParams& params, const float* boxes, const float* scores, int64_t n,
                    int64_t* order, int64_t* selected) {
  int64_t candidates = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!params.has_score_threshold || scores[i] > params.score_threshold) order[candidates++] = i;
  }
  // NaN scores would break the order: they count as the lowest.
  const auto value = [&](int64_t i) { return scores[i] == scores[i] ? scores[i] : -3.4e38f; };
  std::sort(order, order + candidates, [&](int64_t a, int64_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  });
  int64_t kept = 0;
  for (int64_t c = 0; c < candidates && kept < params.max_boxes; ++c) {
    const float* box = boxes + 4 * order[c];
    const bool dropped = std::any_of(selected, selected + kept, [&](int64_t k) {
      return IntersectionOverUnion(params.format, box, boxes + 4 * k) > params.iou_threshold;
    });
    if (!dropped) selected[kept++] = order[c];
  }
  return kept;
}

}  // namespace parallax::kernels
