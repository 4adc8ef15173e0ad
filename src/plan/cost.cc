#include "plan/cost.h"

namespace parallax::plan {
namespace {

using ops::Inference;
using ops::InferInput;
using ops::TensorInfo;

InferInput Known(const Inference& inference, ValueId v) {
  const size_t i = static_cast<size_t>(v);
  return {inference.types[i], inference.constants[i].defined() ? &inference.constants[i] : nullptr,
          inference.dim_values[i] ? &*inference.dim_values[i] : nullptr};
}

// Shapes of the node's values, or false when one is not known.
bool Shapes(const Inference& inference, const std::vector<ValueId>& ids, size_t count,
            std::vector<TensorInfo>* infos) {
  infos->assign(count, {});
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] == kNoValue) continue;
    const std::optional<Shape> shape = inference.types[static_cast<size_t>(ids[i])].shape();
    if (!shape) return false;
    (*infos)[i] = {inference.types[static_cast<size_t>(ids[i])].dtype, *shape, nullptr};
  }
  return true;
}

void Add(const GraphCost& part, double times, GraphCost* sum) {
  sum->flops += times * part.flops;
  sum->bytes += times * part.bytes;
  sum->unknown_nodes += part.unknown_nodes;
  for (const auto& [op, flops] : part.flops_by_op) sum->flops_by_op[op] += times * flops;
}

Result<void> AddControlFlow(const Node& node, const Inference& inference, GraphCost* sum) {
  size_t capture = static_cast<size_t>(node.explicit_inputs);
  GraphCost largest;
  for (const Subgraph& s : node.subgraphs) {
    std::vector<InferInput> captures, inputs;
    for (size_t i = 0; i < s.graph->captures.size(); ++i) {
      captures.push_back(Known(inference, node.inputs[capture++]));
    }
    for (size_t i = 0; i < s.graph->inputs.size(); ++i) {
      InferInput input{s.graph->value(s.graph->inputs[i]).type, nullptr, nullptr};
      // Loop: the body takes (iteration, condition, carried...), the node (trips, condition,
      // carried...); an If's bodies take nothing.
      if (i >= 2 && static_cast<int>(i) < node.explicit_inputs && node.inputs[i] != kNoValue) {
        input.type = inference.types[static_cast<size_t>(node.inputs[i])];
      } else if (i < 2) {
        input.type = TensorType::Of(i == 0 ? DType::kI64 : DType::kBool, Shape{});
      }
      inputs.push_back(input);
    }
    Result<GraphCost> body = CostOf(*s.graph, inputs, captures);
    if (!body.ok()) return body.error();
    if (body->flops >= largest.flops) largest = std::move(*body);
  }
  double times = 1;
  std::vector<int64_t> trips;
  if (node.op == "Loop" && node.explicit_inputs > 0 && node.inputs[0] != kNoValue) {
    const Tensor& t = inference.constants[static_cast<size_t>(node.inputs[0])];
    if (t.defined() && ReadInts(t, 1, &trips) && trips.size() == 1 && trips[0] >= 0) {
      times = static_cast<double>(trips[0]);
    }
  }
  Add(largest, times, sum);
  return {};
}

}  // namespace

Result<GraphCost> CostOf(const Graph& graph, std::span<const InferInput> inputs,
                         std::span<const InferInput> captures) {
  PX_ASSIGN_OR_RETURN(Inference inference, ops::InferGraph(graph, inputs, captures));
  GraphCost sum;
  std::vector<TensorInfo> in, out;
  for (const Node& node : graph.nodes) {
    if (!node.subgraphs.empty()) {
      PX_RETURN_IF_ERROR(AddControlFlow(node, inference, &sum));
      continue;
    }
    bool folded = true;
    for (ValueId v : node.outputs) {
      folded &= v == kNoValue || inference.constants[static_cast<size_t>(v)].defined();
    }
    if (folded) continue;
    if (!Shapes(inference, node.inputs, static_cast<size_t>(node.explicit_inputs), &in) ||
        !Shapes(inference, node.outputs, node.outputs.size(), &out)) {
      ++sum.unknown_nodes;
      continue;
    }
    const ops::Cost cost = ops::EstimateCost(node, in, out);
    sum.flops += cost.flops;
    sum.bytes += cost.bytes_read + cost.bytes_written;
    sum.flops_by_op[node.QualifiedOp()] += cost.flops;
  }
  return sum;
}

}  // namespace parallax::plan
