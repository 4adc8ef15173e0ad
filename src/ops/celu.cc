// Celu: max(0, x) + min(0, alpha (e^(x/alpha) - 1)); alpha defaults to 1. Since opset 12.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kCelu, {.alpha = c.Float("alpha", 1.0f)});
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/12, OpClass::kTranscendental);
}

}  // namespace

OpDef op_celu() {
  OpDef def = UnaryDef("Celu", kFloats, Bind, Estimate);
  def.since = 12;
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
