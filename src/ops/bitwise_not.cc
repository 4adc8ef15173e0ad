// BitwiseNot: every bit inverted, elementwise. Since opset 18.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kBitwiseNot);
}

}  // namespace

OpDef op_bitwise_not() {
  OpDef def = UnaryDef("BitwiseNot", kInts, Bind);
  def.since = 18;
  return def;
}

}  // namespace parallax::ops
