// Swish: x / (1 + exp(-alpha x)), elementwise; alpha 1 is SiLU. Since opset 24.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/14, OpClass::kTranscendental);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSilu, {.alpha = c.Float("alpha", 1.0f)});
}

}  // namespace

OpDef op_swish() {
  OpDef def = UnaryDef("Swish", kFloats, Bind, Estimate);
  def.since = 24;
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
