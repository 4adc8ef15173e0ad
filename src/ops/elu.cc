// Elu: alpha (e^x - 1) below zero, else x; alpha defaults to 1. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kElu, {.alpha = c.Float("alpha", 1.0f)});
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/12, OpClass::kTranscendental);
}

}  // namespace

OpDef op_elu() {
  OpDef def = UnaryDef("Elu", kFloats, Bind, Estimate);
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
