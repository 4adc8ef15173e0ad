// Exp: e to the power x, elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kExp);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/10, OpClass::kTranscendental);
}

}  // namespace

OpDef op_exp() { return UnaryDef("Exp", kFloats, Bind, Estimate); }

}  // namespace parallax::ops
