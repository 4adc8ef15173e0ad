#include <algorithm>

#include "passes/passes.h"

namespace parallax::passes {
namespace {

// Takes captures that the body no longer reads out of the body and out of the node's inputs.
void DropUnusedCaptures(Node* node) {
  size_t position = static_cast<size_t>(node->explicit_inputs);
  std::vector<ValueId> kept(node->inputs.begin(),
                            node->inputs.begin() + static_cast<std::ptrdiff_t>(position));
  for (Subgraph& s : node->subgraphs) {
    Graph& body = *s.graph;
    const std::vector<std::vector<NodeId>> readers = Readers(body);
    std::vector<ValueId> captures;
    for (ValueId v : body.captures) {
      const bool used = !readers[static_cast<size_t>(v)].empty() ||
                        std::count(body.outputs.begin(), body.outputs.end(), v) > 0;
      if (used) {
        captures.push_back(v);
        kept.push_back(node->inputs[position]);
      }
      ++position;
    }
    body.captures = std::move(captures);
    Compact(&body, std::vector<bool>(body.nodes.size(), false));
  }
  node->inputs = std::move(kept);
}

}  // namespace

void RemoveDeadCode(Graph* graph) {
  std::vector<bool> needed(graph->values.size(), false);
  std::vector<bool> dead(graph->nodes.size(), false);
  for (ValueId v : graph->outputs) needed[static_cast<size_t>(v)] = true;
  for (size_t i = graph->nodes.size(); i-- > 0;) {
    Node& node = graph->nodes[i];
    dead[i] = std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      return v != kNoValue && needed[static_cast<size_t>(v)];
    });
    if (dead[i]) continue;
    if (!node.subgraphs.empty()) {
      for (Subgraph& s : node.subgraphs) RemoveDeadCode(s.graph.get());
      DropUnusedCaptures(&node);
    }
    for (ValueId v : node.inputs) {
      if (v != kNoValue) needed[static_cast<size_t>(v)] = true;
    }
  }
  Compact(graph, dead);
}

}  // namespace parallax::passes
