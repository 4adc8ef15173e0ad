// Non-maximum suppression of boxes.
//
// Role:       ONNX NonMaxSuppression.
// Ownership:  borrows its pointers; the caller gives the memory of result and scratch.
// Threads:    runs on the calling thread for one class of one image; callers may split over them.
// Cost:       O(boxes + taken log boxes + taken x kept), where candidates are taken best first
//             until max_boxes are kept: boxes that are never looked at are never sorted.
// Invariants: candidates by falling score, of equal ones the lower index first (NaN counts as minus
//             infinity); the same result on every instruction set.
// Example:
//   NmsParams params{.max_boxes = 100, .iou_threshold = 0.5f};
//   std::vector<std::byte> scratch(NmsScratchBytes(n, 100));
//   int64_t kept = SelectBoxes(params, boxes, scores, n, scratch.data(), selected);
#pragma once

#include <cstddef>
#include <cstdint>

namespace parallax::kernels {

enum class BoxFormat : uint8_t {
  kCorners,  // y1, x1, y2, x2 of any two opposite corners
  kCenter,   // x, y of the centre, width, height
};

struct NmsParams {
  BoxFormat format = BoxFormat::kCorners;
  int64_t max_boxes = 0;  // kept at most
  float iou_threshold =
      0;  // a box that overlaps a kept one by more than this is dropped; in [0, 1]
  bool has_score_threshold = false;
  float score_threshold = 0;  // only scores above it are candidates
};

// Bytes of scratch, aligned to 4, for n boxes of which at most max_boxes are kept.
size_t NmsScratchBytes(int64_t n, int64_t max_boxes);

// Indices of the kept boxes in `selected`, best first; returns their number, at most
// min(n, max_boxes). `boxes` [n, 4], `scores` [n], n < 2^31. A box without area, or with a NaN,
// overlaps nothing.
int64_t SelectBoxes(const NmsParams& params, const float* boxes, const float* scores, int64_t n,
                    std::byte* scratch, int32_t* selected);

}  // namespace parallax::kernels
