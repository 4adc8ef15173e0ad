// Softplus: log(1 + e^x), elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSoftplus);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/20, OpClass::kTranscendental);
}

}  // namespace

OpDef op_softplus() { return UnaryDef("Softplus", kFloats, Bind, Estimate); }

}  // namespace parallax::ops
