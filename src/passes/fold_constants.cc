#include <algorithm>

#include "ops/core/evaluate.h"
#include "ops/core/inference.h"
#include "ops/core/table.h"
#include "passes/passes.h"

namespace parallax::passes {
namespace {

void MakeConstant(Value* value, Tensor tensor) {
  value->origin = ValueOrigin::kConstant;
  value->producer = kNoNode;
  value->type = TensorType::Of(tensor.dtype(), tensor.shape());
  value->constant = std::move(tensor);
}

// Captures whose outer value is a constant become constants of the body.
void ConstantCaptures(const Graph& graph, Node* node) {
  size_t position = static_cast<size_t>(node->explicit_inputs);
  std::vector<ValueId> kept(node->inputs.begin(),
                            node->inputs.begin() + static_cast<std::ptrdiff_t>(position));
  for (Subgraph& s : node->subgraphs) {
    std::vector<ValueId> captures;
    for (ValueId inner : s.graph->captures) {
      const ValueId outer = node->inputs[position++];
      const Value& value = graph.value(outer);
      if (value.origin == ValueOrigin::kConstant) {
        MakeConstant(&s.graph->value(inner), value.constant);
      } else {
        captures.push_back(inner);
        kept.push_back(outer);
      }
    }
    s.graph->captures = std::move(captures);
  }
  node->inputs = std::move(kept);
}

int64_t Bytes(const TensorType& type) {
  const std::optional<Shape> shape = type.shape();
  return shape ? shape->elements() * static_cast<int64_t>(SizeOf(type.dtype)) : 0;
}

class Folder {
 public:
  explicit Folder(Team& team) : team_(team) {}

  // `known`: what inference found for the whole graph, or null for a body, whose inputs are not
  // known here.
  Result<void> Fold(Graph* graph, const ops::Inference* known) {
    std::vector<bool> dead(graph->nodes.size(), false);
    for (size_t i = 0; i < graph->nodes.size(); ++i) {
      Node& node = graph->nodes[i];
      if (!node.subgraphs.empty()) {
        ConstantCaptures(*graph, &node);
        for (Subgraph& s : node.subgraphs) PX_RETURN_IF_ERROR(Fold(s.graph.get(), nullptr));
        continue;
      }
      PX_ASSIGN_OR_RETURN(dead[i], FoldNode(graph, node, known));
    }
    Compact(graph, dead);
    return {};
  }

 private:
  // Whether every output became a constant.
  Result<bool> FoldNode(Graph* graph, const Node& node, const ops::Inference* known) {
    const auto wanted = [](ValueId v) { return v != kNoValue; };
    if (known != nullptr && std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
          return !wanted(v) || known->constants[static_cast<size_t>(v)].defined();
        })) {
      for (ValueId v : node.outputs) {
        if (wanted(v)) MakeConstant(&graph->value(v), known->constants[static_cast<size_t>(v)]);
      }
      return true;
    }
    const ops::OpDef* def = ops::FindOp(node.domain, node.op, node.opset);
    if (def->nondeterministic) return false;
    std::vector<const Tensor*> inputs;
    int64_t bytes_in = 0;
    for (ValueId v : node.inputs) {
      if (v == kNoValue) {
        inputs.push_back(nullptr);
        continue;
      }
      const Value& value = graph->value(v);
      if (value.origin != ValueOrigin::kConstant) return false;
      inputs.push_back(&value.constant);
      bytes_in += static_cast<int64_t>(value.constant.bytes());
    }
    int64_t bytes_out = 0;
    for (ValueId v : node.outputs) {
      if (wanted(v)) bytes_out += Bytes(graph->value(v).type);
    }
    if (bytes_out > std::max(kMaxFoldedBytes, bytes_in)) return false;
    PX_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, ops::Evaluate(*graph, node, inputs, team_));
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (wanted(node.outputs[o])) MakeConstant(&graph->value(node.outputs[o]), outputs[o]);
    }
    return true;
  }

  Team& team_;
};

}  // namespace

Result<void> FoldConstants(Graph* graph) {
  Team team(1);
  PX_ASSIGN_OR_RETURN(ops::Inference inference,
                      ops::InferGraph(*graph, ops::DeclaredInputs(*graph)));
  return Folder(team).Fold(graph, &inference);
}

}  // namespace parallax::passes
