// Sqrt: the square root, elementwise; NaN below zero. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSqrt);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/4, OpClass::kTranscendental);
}

}  // namespace

OpDef op_sqrt() { return UnaryDef("Sqrt", kFloats, Bind, Estimate); }

}  // namespace parallax::ops
