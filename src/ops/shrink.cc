// Shrink: x + bias below -lambd, x - bias above lambd, else 0; defaults 0 and 0.5. Since opset 9;
// integers are refused.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kShrink,
                   {.alpha = c.Float("lambd", 0.5f), .beta = c.Float("bias", 0.0f)});
}

}  // namespace

OpDef op_shrink() {
  OpDef def = UnaryDef("Shrink", kFloats, Bind);
  def.since = 9;
  def.attributes = {{.name = "lambd", .type = AttributeType::kFloat},
                    {.name = "bias", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
