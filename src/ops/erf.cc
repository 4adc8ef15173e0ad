// Erf: the error function, elementwise. Since opset 9; f32, f64 and 16-bit floats (integers, which
// ONNX lists from 13, are refused).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kErf);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/15, OpClass::kTranscendental);
}

}  // namespace

OpDef op_erf() {
  OpDef def = UnaryDef("Erf", kFloats, Bind, Estimate);
  def.since = 9;
  return def;
}

}  // namespace parallax::ops
