// IsInf: whether x is infinite, elementwise, as bool; detect_negative and detect_positive choose
// the signs. Since opset 10.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kIsInf,
                   {.alpha = c.Int("detect_negative", 1) != 0 ? 1.0f : 0.0f,
                    .beta = c.Int("detect_positive", 1) != 0 ? 1.0f : 0.0f});
}

}  // namespace

OpDef op_is_inf() {
  OpDef def = UnaryDef("IsInf", kFloats, Bind);
  def.since = 10;
  def.attributes = {{.name = "detect_negative", .type = AttributeType::kInt},
                    {.name = "detect_positive", .type = AttributeType::kInt}};
  def.outputs = {{"Y", kBools}};
  def.aliases = {};
  return def;
}

}  // namespace parallax::ops
