// BitwiseAnd: bitwise and with broadcasting. Since opset 18.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kBitwiseAnd);
}

}  // namespace

OpDef op_bitwise_and() {
  OpDef def = BinaryDef("BitwiseAnd", kInts, Bind);
  def.since = 18;
  return def;
}

}  // namespace parallax::ops
