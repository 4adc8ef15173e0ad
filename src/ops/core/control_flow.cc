#include "ops/core/control_flow.h"

namespace parallax::ops {

Result<TensorType> CommonType(const TensorType& a, const TensorType& b, std::string_view what) {
  if (a.dtype != b.dtype) {
    return Invalid("{} is {} on one side and {} on the other", what, Name(a.dtype), Name(b.dtype));
  }
  TensorType type{a.dtype, a.ranked && b.ranked && a.rank() == b.rank(), {}};
  if (!type.ranked) return type;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    type.dims.push_back(a.dims[i] == b.dims[i] ? a.dims[i] : Dim());
  }
  return type;
}

}  // namespace parallax::ops
