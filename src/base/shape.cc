#include "base/shape.h"

#include <fmt/format.h>

#include "base/checked.h"

namespace parallax {

Result<Shape> Shape::Make(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return MakeError(ErrorCode::kUnsupported, "rank {} is above the limit of {}", dims.size(),
                     kMaxRank);
  }
  // Zero extents make the count zero, but the others must still not overflow among themselves:
  // strides are products of them.
  int64_t product = 1;
  for (int64_t d : dims) {
    if (d < 0) {
      return MakeError(ErrorCode::kInvalidArgument, "shape [{}] has a negative extent",
                       fmt::join(dims, ","));
    }
    std::optional<int64_t> next = CheckedMul(product, d == 0 ? 1 : d);
    // 2^56 elements of 8 bytes still fit an int64 byte count with room for alignment.
    if (!next || *next > (int64_t{1} << 56)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "shape [{}] has too many elements: their product overflows",
                       fmt::join(dims, ","));
    }
    product = *next;
  }
  return Shape(dims);
}

std::string Shape::ToString() const { return fmt::format("[{}]", fmt::join(dims(), ",")); }

}  // namespace parallax
