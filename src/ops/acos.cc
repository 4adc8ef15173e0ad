// Acos: arc cosine, elementwise; NaN outside its domain. Since opset 7.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kAcos);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/20, OpClass::kTranscendental);
}

}  // namespace

OpDef op_acos() {
  OpDef def = UnaryDef("Acos", kFloats, Bind, Estimate);
  def.since = 7;
  return def;
}

}  // namespace parallax::ops
