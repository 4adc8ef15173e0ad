#include "ops/core/axes.h"

namespace parallax::ops {

std::optional<std::vector<int64_t>> AxesOf(const InferContext& c, int input) {
  if (c.has_input(input)) return c.ConstantInts(input);
  const std::vector<int64_t>* attribute = c.Ints("axes");
  return attribute == nullptr ? std::vector<int64_t>() : *attribute;
}

int64_t CountOfInput(const InferContext& c, int input) {
  const std::optional<Shape> shape = c.type(input).shape();
  return shape ? shape->elements() : -1;
}

}  // namespace parallax::ops
