// LessOrEqual: A <= B as bool, elementwise with broadcasting; false with NaN. Since opset 12.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kLessOrEqual);
}

}  // namespace

OpDef op_less_or_equal() {
  OpDef def = BinaryDef("LessOrEqual", kNumbers, Bind, /*comparison=*/true);
  def.since = 12;
  return def;
}

}  // namespace parallax::ops
