// A tensor seen as [outer, axis, inner] around one axis.
#pragma once

#include "base/shape.h"

namespace parallax::ops {

struct AxisView {
  int64_t outer = 1, axis = 1, inner = 1;
};

// REQUIRES: axis in [0, rank).
inline AxisView ViewAround(const Shape& shape, int axis) {
  return {shape.Elements(0, axis), shape[axis], shape.Elements(axis + 1, shape.rank())};
}

}  // namespace parallax::ops
