// Non-maximum suppression against the plain algorithm, on every SIMD target.
#include "kernels/detect/nms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

// Intersection over union by the definition, one pair at a time, in f32 as the kernel documents.
float Ratio(const std::vector<float>& a, const std::vector<float>& b) {
  const float height = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const float width = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const float area_a = (a[2] - a[0]) * (a[3] - a[1]);
  const float area_b = (b[2] - b[0]) * (b[3] - b[1]);
  if (!(height > 0 && width > 0 && area_a > 0 && area_b > 0)) return 0;
  volatile float common = height * width;  // stored: not fused into the subtraction
  return common / (area_a + area_b - common);
}

std::vector<float> Corners(BoxFormat format, const float* b) {
  if (format == BoxFormat::kCenter) {
    return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  }
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

std::vector<int32_t> Reference(const NmsParams& p, const std::vector<float>& boxes,
                               const std::vector<float>& scores) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  std::vector<int32_t> kept;
  for (int32_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= p.max_boxes) break;
    if (p.has_score_threshold && !(scores[static_cast<size_t>(i)] > p.score_threshold)) continue;
    const auto corners = [&](int32_t k) {
      return Corners(p.format, &boxes[4 * static_cast<size_t>(k)]);
    };
    const bool dropped = std::any_of(kept.begin(), kept.end(), [&](int32_t k) {
      return Ratio(corners(i), corners(k)) > p.iou_threshold;
    });
    if (!dropped) kept.push_back(i);
  }
  return kept;
}

std::vector<int32_t> Select(const NmsParams& p, const std::vector<float>& boxes,
                            const std::vector<float>& scores) {
  const int64_t n = static_cast<int64_t>(scores.size());
  // Exact sizes: sanitizers see a step beyond. Old contents must not matter.
  std::vector<std::byte> scratch(NmsScratchBytes(n, p.max_boxes), std::byte{0x7f});
  std::vector<int32_t> selected(static_cast<size_t>(std::min(n, p.max_boxes)));
  const int64_t kept =
      SelectBoxes(p, boxes.data(), scores.data(), n, scratch.data(), selected.data());
  selected.resize(static_cast<size_t>(kept));
  return selected;
}

TEST(Nms, AsThePlainAlgorithm) {
  for (int64_t n : {1, 2, 15, 64, 65, 500}) {
    for (BoxFormat format : {BoxFormat::kCorners, BoxFormat::kCenter}) {
      const size_t count = static_cast<size_t>(n);
      std::vector<float> boxes = Normal(4 * count, static_cast<uint32_t>(n), 10);
      std::vector<float> scores = Normal(count, static_cast<uint32_t>(n) + 1);
      // Ties: the lower index goes first.
      for (float& s : scores) s = std::round(s * 8) / 8;
      for (int64_t most : {int64_t{1}, n / 2, n, 10 * n}) {
        for (bool threshold : {false, true}) {
          const NmsParams p{.format = format,
                            .max_boxes = most,
                            .iou_threshold = 0.3f,
                            .has_score_threshold = threshold,
                            .score_threshold = 0.25f};
          const std::vector<int32_t> want = Reference(p, boxes, scores);
          ForEachTarget([&] { EXPECT_EQ(Select(p, boxes, scores), want) << n << " " << most; });
        }
      }
    }
  }
}

// Everything is kept: the list of kept boxes is filled to its last block.
TEST(Nms, KeepsAllOfManyBoxesApart) {
  for (size_t n : {63, 64, 65, 129}) {
    std::vector<float> boxes, scores;
    for (size_t i = 0; i < n; ++i) {
      const float at = 3 * static_cast<float>(i);
      boxes.insert(boxes.end(), {at, 0, at + 2, 1});
      scores.push_back(static_cast<float>(i));
    }
    const NmsParams p{.max_boxes = static_cast<int64_t>(n), .iou_threshold = 0};
    ForEachTarget([&] {
      const std::vector<int32_t> found = Select(p, boxes, scores);
      ASSERT_EQ(found.size(), n);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(found[i], static_cast<int32_t>(n - 1 - i));
    });
  }
}

TEST(Nms, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> boxes = {0, 0, 1, 1, 0, 0, 1, 1, nan, 0, 1, 1, 0, 0, inf, inf};
  const NmsParams p{.max_boxes = 4, .iou_threshold = 0.5f};
  ForEachTarget([&] {
    // NaN and minus infinity tie for last; a box with a NaN, or one without bound, drops nothing.
    EXPECT_EQ(Select(p, boxes, {0.5f, 0.9f, 0.4f, 0.3f}), (std::vector<int32_t>{1, 2, 3}));
    EXPECT_EQ(Select(p, boxes, {-inf, 0.9f, nan, nan}), (std::vector<int32_t>{1, 2, 3}));
    NmsParams above = p;
    above.has_score_threshold = true;
    above.score_threshold = -inf;
    EXPECT_EQ(Select(above, boxes, {-inf, 0.9f, nan, nan}), (std::vector<int32_t>{1}));
    EXPECT_TRUE(Select(NmsParams{}, boxes, {1, 1, 1, 1}).empty());
  });
}

}  // namespace
}  // namespace parallax::kernels
