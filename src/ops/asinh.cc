// Asinh: inverse hyperbolic sine, elementwise; NaN outside its domain. Since opset 9.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kAsinh);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/20, OpClass::kTranscendental);
}

}  // namespace

OpDef op_asinh() {
  OpDef def = UnaryDef("Asinh", kFloats, Bind, Estimate);
  def.since = 9;
  return def;
}

}  // namespace parallax::ops
