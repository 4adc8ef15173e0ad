// ThresholdedRelu: x where x > alpha, else 0; alpha defaults to 1. Since opset 10.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kThresholdedRelu, {.alpha = c.Float("alpha", 1.0f)});
}

}  // namespace

OpDef op_thresholded_relu() {
  OpDef def = UnaryDef("ThresholdedRelu", kFloats, Bind);
  def.since = 10;
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat}};
  return def;
}

}  // namespace parallax::ops
