// Sigmoid: 1 / (1 + e^-x), elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSigmoid);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/12, OpClass::kTranscendental);
}

}  // namespace

OpDef op_sigmoid() { return UnaryDef("Sigmoid", kFloats, Bind, Estimate); }

}  // namespace parallax::ops
