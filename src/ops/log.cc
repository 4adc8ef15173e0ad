// Log: the natural logarithm, elementwise; NaN below zero. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kLog);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/10, OpClass::kTranscendental);
}

}  // namespace

OpDef op_log() { return UnaryDef("Log", kFloats, Bind, Estimate); }

}  // namespace parallax::ops
