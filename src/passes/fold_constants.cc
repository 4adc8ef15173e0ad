#include <algorithm>
#include <limits>

#include "base/checked.h"
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

// Bytes of the node's outputs, as far as their shapes follow from its constants.
Result<int64_t> OutputBytes(const Graph& graph, const Node& node,
                            std::span<const Tensor* const> inputs) {
  std::vector<TensorType> types(inputs.size());
  std::vector<ops::InferContext::Input> infer(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    types[i] = TensorType::Of(inputs[i]->dtype(), inputs[i]->shape());
    infer[i] = {&types[i], inputs[i], nullptr};
  }
  PX_ASSIGN_OR_RETURN(ops::NodeInference inference, ops::InferNode(graph, node, infer));
  int64_t bytes = 0;
  for (size_t i = 0; i < inference.outputs.size(); ++i) {
    const std::optional<Shape> shape = inference.outputs[i].shape();
    if (node.outputs[i] == kNoValue || !shape) continue;
    const std::optional<int64_t> sum = CheckedAdd(
        bytes, shape->elements() * static_cast<int64_t>(SizeOf(inference.outputs[i].dtype)));
    bytes = sum.value_or(std::numeric_limits<int64_t>::max());
  }
  return bytes;
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
    // What is wrong with the node is the run's to report: it may stand in a branch that is never
    // taken. (Inference has refused what is wrong whatever happens.)
    const Result<int64_t> bytes_out = OutputBytes(*graph, node, inputs);
    if (!bytes_out.ok() || *bytes_out > std::max(kMaxFoldedBytes, bytes_in)) return false;
    Result<std::vector<Tensor>> outputs = ops::Evaluate(*graph, node, inputs, team_);
    if (!outputs.ok()) {
      if (outputs.error().code() == ErrorCode::kOutOfMemory) return outputs.error();
      return false;
    }
    for (size_t o = 0; o < outputs->size(); ++o) {
      if (wanted(node.outputs[o])) MakeConstant(&graph->value(node.outputs[o]), (*outputs)[o]);
    }
    return true;
  }

  Team& team_;
};

}  // namespace

Result<void> FoldConstants(Graph* graph) {
  Team team(1);
  std::vector<ops::InferInput> captures;
  for (ValueId v : graph->captures) captures.push_back({graph->value(v).type, nullptr, nullptr});
  PX_ASSIGN_OR_RETURN(ops::Inference inference,
                      ops::InferGraph(*graph, ops::DeclaredInputs(*graph), captures));
  return Folder(team).Fold(graph, &inference);
}

}  // namespace parallax::passes
