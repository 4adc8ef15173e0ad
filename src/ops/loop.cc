// Loop: runs a body up to M times while a condition holds. The body takes (iteration, condition,
// carried values...) and gives (condition, carried values..., scan outputs...); scan outputs are
// stacked along a new first axis. Carried values may change shape, not element type. Since opset 1;
// tensors only.
#include "ops/core/control_flow.h"
#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

Result<void> CheckOneElement(const InferContext& c, int i, std::string_view what) {
  if (!c.has_input(i)) return {};
  if (std::optional<Shape> shape = c.type(i).shape(); shape && shape->elements() != 1) {
    return Invalid("the {} should have one element, has shape {}", what, shape->ToString());
  }
  return {};
}

Result<void> Infer(InferContext& c) {
  const Graph* body = c.node().Body("body");
  const size_t carried = static_cast<size_t>(std::max(c.num_inputs() - 2, 0));
  if (body->inputs.size() != 2 + carried) {
    return Invalid("the body takes {} inputs, should take 2 and {} carried values",
                   body->inputs.size(), carried);
  }
  if (body->outputs.size() < 1 + carried ||
      body->outputs.size() - 1 < static_cast<size_t>(c.num_outputs())) {
    return Invalid(
        "the body gives {} outputs: 1 condition, {} carried values, {} outputs of the node",
        body->outputs.size(), carried, c.num_outputs());
  }
  PX_RETURN_IF_ERROR(CheckOneElement(c, 0, "trip count"));
  PX_RETURN_IF_ERROR(CheckOneElement(c, 1, "condition"));
  std::vector<TensorType> state = {TensorType::Of(DType::kI64, Shape{}),
                                   TensorType::Of(DType::kBool, Shape{})};
  for (size_t i = 0; i < carried; ++i) {
    if (!c.has_input(static_cast<int>(2 + i))) return Invalid("carried value {} is left out", i);
    state.push_back(c.type(static_cast<int>(2 + i)));
  }
  std::vector<TensorType>& memory = c.body_memory();
  for (size_t i = 0; memory.size() == carried && i < carried; ++i) {
    Result<TensorType> common = CommonType(state[2 + i], memory[i], "carried value");
    if (common.ok()) state[2 + i] = std::move(*common);
  }
  // Types only lose precision from round to round: a dim is given up once, then the rank.
  while (true) {
    PX_ASSIGN_OR_RETURN(std::vector<TensorType> out, c.InferBody("body", state));
    if (out[0].dtype != DType::kBool) return Invalid("the body's condition is not a bool");
    bool stable = true;
    for (size_t i = 0; i < carried; ++i) {
      PX_ASSIGN_OR_RETURN(TensorType common,
                          CommonType(state[2 + i], out[1 + i], fmt::format("carried value {}", i)));
      bool same = common.ranked == state[2 + i].ranked;
      for (size_t d = 0; same && d < common.dims.size(); ++d) {
        const Dim& before = state[2 + i].dims[d];
        const Dim& after = common.dims[d];
        same = before.extent == after.extent && before.symbol == after.symbol;
      }
      if (!same) {
        stable = false;
        state[2 + i] = std::move(common);
      }
    }
    if (!stable) continue;
    memory.assign(state.begin() + 2, state.end());
    for (size_t i = 0; i < carried; ++i) {
      PX_RETURN_IF_ERROR(c.SetType(static_cast<int>(i), state[2 + i]));
    }
    for (size_t i = 1 + carried; i < out.size(); ++i) {
      TensorType& type = out[i];
      if (type.ranked) type.dims.insert(type.dims.begin(), Dim());
      if (type.dims.size() > static_cast<size_t>(kMaxRank)) {
        return Invalid("scan output {} has rank {}", i - 1 - carried, type.dims.size());
      }
      if (static_cast<int>(i) - 1 < c.num_outputs()) {
        PX_RETURN_IF_ERROR(c.SetType(static_cast<int>(i) - 1, std::move(type)));
      }
    }
    return {};
  }
}

}  // namespace

OpDef op_loop() {
  OpDef def;
  def.name = "Loop";
  def.inputs = {{"M", kI64s, 0, Arity::kOptional},
                {"cond", kBools, 0, Arity::kOptional},
                {"v_initial", kAll, '*', Arity::kVariadic}};
  def.outputs = {{"v_final_and_scan_outputs", kAll, '*', Arity::kVariadic}};
  def.attributes = {{.name = "body", .type = AttributeType::kGraph, .required = true}};
  def.control_flow = true;
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
