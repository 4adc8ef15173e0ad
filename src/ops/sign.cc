// Sign: -1, 0 or 1, elementwise; NaN stays NaN. Since opset 9.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSign);
}

}  // namespace

OpDef op_sign() {
  OpDef def = UnaryDef("Sign", kNumbers, Bind);
  def.since = 9;
  return def;
}

}  // namespace parallax::ops
