// LeakyRelu: x below zero times alpha (default 0.01), elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kLeakyRelu, {.alpha = c.Float("alpha", 0.01f)});
}

}  // namespace

OpDef op_leaky_relu() {
  OpDef def = UnaryDef("LeakyRelu", kFloats, Bind);
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
