// Mish: x tanh(log(1 + e^x)), elementwise. Since opset 18.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kMish);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/25, OpClass::kTranscendental);
}

}  // namespace

OpDef op_mish() {
  OpDef def = UnaryDef("Mish", kFloats, Bind, Estimate);
  def.since = 18;
  return def;
}

}  // namespace parallax::ops
