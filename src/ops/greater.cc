// Greater: A > B as bool, elementwise with broadcasting; false with NaN. Since opset 7.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kGreater);
}

}  // namespace

OpDef op_greater() { return BinaryDef("Greater", kNumbers, Bind, /*comparison=*/true); }

}  // namespace parallax::ops
