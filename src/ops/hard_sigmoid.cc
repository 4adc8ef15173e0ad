// HardSigmoid: max(0, min(1, alpha x + beta)); defaults 0.2 and 0.5. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kHardSigmoid,
                   {.alpha = c.Float("alpha", 0.2f), .beta = c.Float("beta", 0.5f)});
}

}  // namespace

OpDef op_hard_sigmoid() {
  OpDef def = UnaryDef("HardSigmoid", kFloats, Bind);
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat},
                    {.name = "beta", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
