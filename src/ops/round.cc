// Round: the nearest integer, halves to even, elementwise. Since opset 11.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kRound);
}

}  // namespace

OpDef op_round() {
  OpDef def = UnaryDef("Round", kFloats, Bind);
  def.since = 11;
  return def;
}

}  // namespace parallax::ops
