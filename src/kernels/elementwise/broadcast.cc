#include "kernels/elementwise/broadcast.h"

#include <algorithm>
#include <string>

namespace parallax::kernels {
namespace {

template <int kOperands>
BroadcastLoops<kOperands> MakeLoops(const std::array<const Shape*, kOperands>& shapes) {
  BroadcastLoops<kOperands> plan;
  int rank = 0;
  for (const Shape* s : shapes) rank = std::max(rank, s->rank());
  plan.elements = 1;
  bool any = false;  // a loop exists to merge with
  for (int axis = 0; axis < rank; ++axis) {
    std::array<int64_t, kOperands> extents;
    int64_t extent = 1;
    for (size_t k = 0; k < kOperands; ++k) {
      const int own = axis - (rank - shapes[k]->rank());
      extents[k] = own < 0 ? 1 : (*shapes[k])[own];
      if (extents[k] != 1) extent = extents[k];
    }
    plan.shape.Append(extent);
    plan.elements *= extent;
    if (extent == 1) continue;
    // For now a stride is 1 where the operand steps and 0 where it repeats.
    std::array<int64_t, kOperands> steps;
    for (size_t k = 0; k < kOperands; ++k) steps[k] = extents[k] == 1 ? 0 : 1;
    const size_t last = static_cast<size_t>(plan.rank) - 1;
    bool same = any;
    for (size_t k = 0; same && k < kOperands; ++k) same = plan.stride[k][last] == steps[k];
    if (same) {
      plan.extent[last] *= extent;
      continue;
    }
    const size_t next = static_cast<size_t>(plan.rank++);
    plan.extent[next] = extent;
    for (size_t k = 0; k < kOperands; ++k) plan.stride[k][next] = steps[k];
    any = true;
  }
  if (!any) {
    plan.rank = 1;
    plan.extent[0] = 1;
  }
  for (size_t k = 0; k < kOperands; ++k) {
    int64_t stride = 1;
    for (size_t r = static_cast<size_t>(plan.rank); r-- > 0;) {
      if (plan.stride[k][r] == 0) continue;
      plan.stride[k][r] = stride;
      stride *= plan.extent[r];
    }
  }
  return plan;
}

}  // namespace

Result<Shape> BroadcastShape(std::span<const Shape> shapes) {
  int rank = 0;
  for (const Shape& s : shapes) rank = std::max(rank, s.rank());
  std::array<int64_t, kMaxRank> dims;
  for (int axis = 0; axis < rank; ++axis) {
    int64_t extent = 1;
    for (const Shape& s : shapes) {
      const int own = axis - (rank - s.rank());
      const int64_t e = own < 0 ? 1 : s[own];
      if (e == 1 || e == extent) continue;
      if (extent != 1) {
        std::string names;
        for (const Shape& t : shapes) names += (names.empty() ? "" : ", ") + t.ToString();
        return MakeError(ErrorCode::kInvalidArgument, "shapes {} do not broadcast", names);
      }
      extent = e;
    }
    dims[static_cast<size_t>(axis)] = extent;
  }
  return Shape::Make({dims.data(), static_cast<size_t>(rank)});
}

BroadcastPlan MakeBroadcastPlan(const Shape& a, const Shape& b) { return MakeLoops<2>({&a, &b}); }

BroadcastPlan3 MakeBroadcastPlan(const Shape& a, const Shape& b, const Shape& c) {
  return MakeLoops<3>({&a, &b, &c});
}

}  // namespace parallax::kernels
