// Non-maximum suppression of boxes.
//
// Role:       ONNX NonMaxSuppression.
// Ownership:  borrows its pointers; the caller gives the result's memory.
// Threads:    runs on the calling thread for one class of one image; callers may split over them.
// Cost:       O(candidates x kept) after one sort; workspace from the caller.
// Invariants: candidates by falling score, of equal ones the lower index first; deterministic.
// Example:
//   int64_t kept = SelectBoxes(params, boxes, scores, n, order, selected);
#pragma once

#include <cstdint>

namespace parallax::kernels {

enum class BoxFormat : uint8_t {
  kCorners,  // y1, x1, y2, x2 of any two opposite corners
  kCenter,   // x, y of the centre, width, height
};

struct NmsParams {
  BoxFormat format = BoxFormat::kCorners;
  int64_t max_boxes = 0;    // kept at most
  float iou_threshold = 0;  // a box that overlaps a kept one by more than this is dropped
  bool has_score_threshold = false;
  float score_threshold = 0;  // only scores above it are candidates
};

// Intersection over union of two boxes of 4 floats; 0 where either has no area.
float IntersectionOverUnion(BoxFormat format, const float* a, const float* b);

// Indices of the kept boxes in `selected`, best first; returns their number. `boxes` [n, 4],
// `scores` [n]; `order` is scratch for n indices, `selected` holds min(n, max_boxes).
int64_t SelectBoxes(const NmsParams& params, const float* boxes, const float* scores, int64_t n,
                    int64_t* order, int64_t* selected);

}  // namespace parallax::kernels
