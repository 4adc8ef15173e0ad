#include "passes/passes.h"

namespace parallax::passes {

void Specialize(Graph* graph, const ops::Inference& known) {
  for (size_t v = 0; v < graph->values.size(); ++v) {
    Value& value = graph->values[v];
    if (value.origin == ValueOrigin::kConstant) continue;
    value.type = known.types[v];
    if (value.origin != ValueOrigin::kNode || !known.constants[v].defined()) continue;
    value.origin = ValueOrigin::kConstant;
    value.producer = kNoNode;
    value.constant = known.constants[v];
    value.type = TensorType::Of(value.constant.dtype(), value.constant.shape());
  }
  // A node all of whose outputs are known is gone; of one that is left, the known outputs are.
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    bool runs = false;
    for (ValueId& v : graph->nodes[i].outputs) {
      if (v == kNoValue) continue;
      if (graph->value(v).origin == ValueOrigin::kConstant) {
        v = kNoValue;
      } else {
        runs = true;
      }
    }
    dead[i] = !runs;
  }
  Compact(graph, dead);
}

Result<void> FoldKnown(Graph* graph, const ops::Inference& known) {
  Specialize(graph, known);
  PX_RETURN_IF_ERROR(FoldConstants(graph));
  RemoveIdentities(graph);
  RemoveDeadCode(graph);
  return {};
}

Result<void> Lower(Graph* graph, const ops::Inference& known) {
  PX_RETURN_IF_ERROR(FoldKnown(graph, known));
  SimplifyMoves(graph);
  NameActivations(graph);
  NameLayerNorm(graph);
  FuseAttention(graph);
  FuseMatMul(graph);
  FuseConv(graph);
  PX_RETURN_IF_ERROR(UseChannelsLast(graph));
  FuseConvChain(graph);
  JoinSources(graph);
  RemoveIdentities(graph);
  PX_RETURN_IF_ERROR(FoldConstants(graph));
  RemoveDeadCode(graph);
  return graph->Verify();
}

}  // namespace parallax::passes
