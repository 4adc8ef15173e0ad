// Selu: gamma (alpha e^x - alpha) up to zero, gamma x above. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kSelu,
                   {.alpha = c.Float("alpha", 1.67326319217681884765625f),
                    .beta = c.Float("gamma", 1.05070102214813232421875f)});
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/12, OpClass::kTranscendental);
}

}  // namespace

OpDef op_selu() {
  OpDef def = UnaryDef("Selu", kFloats, Bind, Estimate);
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat},
                    {.name = "gamma", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
