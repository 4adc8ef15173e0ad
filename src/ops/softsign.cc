// Softsign: x / (1 + |x|), elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSoftsign);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/6, OpClass::kTranscendental);
}

}  // namespace

OpDef op_softsign() { return UnaryDef("Softsign", kFloats, Bind, Estimate); }

}  // namespace parallax::ops
