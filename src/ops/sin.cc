// Sin: sine, elementwise. Since opset 7.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSin);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/10, OpClass::kTranscendental);
}

}  // namespace

OpDef op_sin() {
  OpDef def = UnaryDef("Sin", kFloats, Bind, Estimate);
  def.since = 7;
  return def;
}

}  // namespace parallax::ops
