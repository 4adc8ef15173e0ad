// Reciprocal: 1 / x, elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kReciprocal);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/4, OpClass::kTranscendental);
}

}  // namespace

OpDef op_reciprocal() { return UnaryDef("Reciprocal", kFloats, Bind, Estimate); }

}  // namespace parallax::ops
