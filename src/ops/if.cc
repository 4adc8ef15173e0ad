// If: the outputs of one of two bodies, chosen by a bool of one element. Bodies read values of the
// enclosing graph, and may return them. The sides may give unequal shapes and ranks, but not
// unequal element types. Since opset 1; tensors only (sequences and optionals are refused).
#include "ops/core/control_flow.h"
#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

Result<void> CheckBody(const InferContext& c, std::string_view attribute) {
  const Graph* body = c.node().Body(attribute);
  if (!body->inputs.empty()) return Invalid("{} takes inputs, an If gives none", attribute);
  if (body->outputs.size() != static_cast<size_t>(c.num_outputs())) {
    return Invalid("{} has {} outputs, the node {}", attribute, body->outputs.size(),
                   c.num_outputs());
  }
  return {};
}

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(CheckBody(c, "then_branch"));
  PX_RETURN_IF_ERROR(CheckBody(c, "else_branch"));
  if (std::optional<Shape> shape = c.type(0).shape(); shape && shape->elements() != 1) {
    return Invalid("the condition should have one element, has shape {}", shape->ToString());
  }
  if (std::optional<std::vector<int64_t>> condition = c.ConstantInts(0)) {
    const bool taken = (*condition)[0] != 0;
    PX_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                        c.InferBody(taken ? "then_branch" : "else_branch", {}));
    for (size_t i = 0; i < types.size(); ++i) {
      PX_RETURN_IF_ERROR(c.SetType(static_cast<int>(i), std::move(types[i])));
    }
    return {};
  }
  // Exporters guard operators by an If on the very shapes they would fail for: a side that cannot
  // be inferred is an error only when it is taken.
  Result<std::vector<TensorType>> then_types = c.InferBody("then_branch", {});
  Result<std::vector<TensorType>> else_types = c.InferBody("else_branch", {});
  if (!then_types.ok() && !else_types.ok()) return then_types.error();
  for (int i = 0; i < c.num_outputs(); ++i) {
    const size_t o = static_cast<size_t>(i);
    TensorType type;
    if (then_types.ok() && else_types.ok()) {
      PX_ASSIGN_OR_RETURN(
          type, CommonType((*then_types)[o], (*else_types)[o], fmt::format("output {}", i)));
    } else {
      type.dtype = (then_types.ok() ? *then_types : *else_types)[o].dtype;
    }
    PX_RETURN_IF_ERROR(c.SetType(i, std::move(type)));
  }
  return {};
}

}  // namespace

OpDef op_if() {
  OpDef def;
  def.name = "If";
  def.inputs = {Steers({"cond", kBools})};
  def.outputs = {{"outputs", kAll, '*', Arity::kVariadic}};
  def.attributes = {{.name = "then_branch", .type = AttributeType::kGraph, .required = true},
                    {.name = "else_branch", .type = AttributeType::kGraph, .required = true}};
  def.control_flow = true;
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
