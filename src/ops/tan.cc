// Tan: tangent, elementwise. Since opset 7.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kTan);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/15, OpClass::kTranscendental);
}

}  // namespace

OpDef op_tan() {
  OpDef def = UnaryDef("Tan", kFloats, Bind, Estimate);
  def.since = 7;
  return def;
}

}  // namespace parallax::ops
