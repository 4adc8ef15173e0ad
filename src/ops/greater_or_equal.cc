// GreaterOrEqual: A >= B as bool, elementwise with broadcasting; false with NaN. Since opset 12.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kGreaterOrEqual);
}

}  // namespace

OpDef op_greater_or_equal() {
  OpDef def = BinaryDef("GreaterOrEqual", kNumbers, Bind, /*comparison=*/true);
  def.since = 12;
  return def;
}

}  // namespace parallax::ops
