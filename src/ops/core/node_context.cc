#include "ops/core/node_context.h"

#include <algorithm>

namespace parallax::ops {

Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return Invalid("axis {} is outside a tensor of rank {}", axis, rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int>> NormalizeAxes(const std::vector<int64_t>& axes, int rank) {
  std::vector<int> result;
  result.reserve(axes.size());
  for (int64_t a : axes) {
    PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(a, rank));
    result.push_back(axis);
  }
  std::sort(result.begin(), result.end());
  for (size_t i = 1; i < result.size(); ++i) {
    if (result[i] == result[i - 1]) return Invalid("axis {} is named twice", result[i]);
  }
  return result;
}

}  // namespace parallax::ops
