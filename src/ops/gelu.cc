// Gelu: x (1 + erf(x / sqrt 2)) / 2, or its tanh form with approximate = "tanh". Since opset 20.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const std::string_view form = c.String("approximate", "none");
  if (form != "none" && form != "tanh") {
    return Invalid("approximate is '{}', should be none or tanh", form);
  }
  return c.SetSameAsInput(0, 0);
}

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/18, OpClass::kTranscendental);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, c.String("approximate", "none") == "tanh" ? kernels::UnaryOp::kGeluTanh
                                                                : kernels::UnaryOp::kGelu);
}

}  // namespace

OpDef op_gelu() {
  OpDef def = UnaryDef("Gelu", kFloats, Bind, Estimate);
  def.since = 20;
  def.attributes = {{.name = "approximate", .type = AttributeType::kString}};
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
