#include "passes/passes.h"

namespace parallax::passes {
namespace {

// Whether output 0 of the node is its input 0.
bool PassesInputOn(const Node& node) {
  if (!node.domain.empty()) return false;
  if (node.op == "Identity") return true;
  if (node.op != "Dropout") return false;
  // Inference mode: no training flag, and nobody asks for the mask.
  const bool training = node.opset >= 12 && node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  return !training && (node.outputs.size() < 2 || node.outputs[1] == kNoValue);
}

}  // namespace

void RemoveIdentities(Graph* graph) {
  std::vector<ValueId> source(graph->values.size());
  for (size_t v = 0; v < source.size(); ++v) source[v] = static_cast<ValueId>(v);
  const auto rewire = [&](std::vector<ValueId>* ids) {
    for (ValueId& v : *ids) {
      if (v != kNoValue) v = source[static_cast<size_t>(v)];
    }
  };
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    Node& node = graph->nodes[i];
    rewire(&node.inputs);
    for (Subgraph& s : node.subgraphs) RemoveIdentities(s.graph.get());
    if (!PassesInputOn(node) || node.outputs.empty() || node.outputs[0] == kNoValue) continue;
    source[static_cast<size_t>(node.outputs[0])] = node.inputs[0];
    dead[i] = true;
  }
  rewire(&graph->outputs);
  Compact(graph, dead);
}

}  // namespace parallax::passes
