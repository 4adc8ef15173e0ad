// HardSwish: x max(0, min(1, x / 6 + 1/2)), elementwise. Since opset 14.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kHardSwish);
}

}  // namespace

OpDef op_hard_swish() {
  OpDef def = UnaryDef("HardSwish", kFloats, Bind);
  def.since = 14;
  return def;
}

}  // namespace parallax::ops
