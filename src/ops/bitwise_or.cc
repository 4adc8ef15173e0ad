// BitwiseOr: bitwise or with broadcasting. Since opset 18.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kBitwiseOr);
}

}  // namespace

OpDef op_bitwise_or() {
  OpDef def = BinaryDef("BitwiseOr", kInts, Bind);
  def.since = 18;
  return def;
}

}  // namespace parallax::ops
