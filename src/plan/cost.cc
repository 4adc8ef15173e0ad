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
  sum->open_loops += part.open_loops;
  sum->open_ifs += part.open_ifs;
  for (const auto& [op, flops] : part.flops_by_op) sum->flops_by_op[op] += times * flops;
}

// The value of an integer or bool of one element, where it is known before running.
std::optional<int64_t> KnownInt(const Inference& inference, ValueId v) {
  if (v == kNoValue) return std::nullopt;
  const Tensor& t = inference.constants[static_cast<size_t>(v)];
  std::vector<int64_t> ints;
  if (t.defined() && t.dtype() == DType::kBool && t.elements() == 1) return *t.data<bool>();
  if (t.defined() && ReadInts(t, 1, &ints) && ints.size() == 1) return ints[0];
  const std::optional<Dims>& dims = inference.dim_values[static_cast<size_t>(v)];
  if (dims && dims->size() == 1 && (*dims)[0].known()) return (*dims)[0].extent;
  return std::nullopt;
}

// Costs of the node's bodies, in their order; `inputs` go to each body.
std::vector<Result<GraphCost>> BodyCosts(const Node& node, const Inference& inference,
                                         std::span<const InferInput> inputs) {
  std::vector<Result<GraphCost>> costs;
  size_t capture = static_cast<size_t>(node.explicit_inputs);
  for (const Subgraph& s : node.subgraphs) {
    std::vector<InferInput> captures;
    for (size_t i = 0; i < s.graph->captures.size(); ++i) {
      captures.push_back(Known(inference, node.inputs[capture++]));
    }
    costs.push_back(CostOf(*s.graph, inputs, captures));
  }
  return costs;
}

Result<void> AddIf(const Node& node, const Inference& inference, GraphCost* sum) {
  const std::vector<Result<GraphCost>> sides = BodyCosts(node, inference, {});
  const std::optional<int64_t> condition = KnownInt(inference, node.inputs[0]);
  const Result<GraphCost>* counted = nullptr;
  for (size_t i = 0; i < sides.size(); ++i) {
    const bool is_then = node.subgraphs[i].attribute == "then_branch";
    if (condition && (*condition != 0) != is_then) continue;
    // A side that cannot be inferred at these shapes is an error only when it is taken.
    if (counted == nullptr || !counted->ok() ||
        (sides[i].ok() && sides[i]->flops > (*counted)->flops)) {
      counted = &sides[i];
    }
  }
  if (counted == nullptr) return MakeError(ErrorCode::kInternal, "an If lacks a side");
  if (!counted->ok()) return counted->error();
  Add(**counted, 1, sum);
  if (!condition) ++sum->open_ifs;
  return {};
}

// Whether the condition that the body gives stays true: a constant, or the body's own input
// handed on.
bool NeverEndsEarly(const Graph& body) {
  ValueId v = body.outputs[0];
  while (true) {
    const Value& value = body.value(v);
    if (value.constant.defined() && value.origin == ValueOrigin::kConstant) {
      return value.constant.dtype() == DType::kBool && value.constant.elements() == 1 &&
             *value.constant.data<bool>();
    }
    if (value.origin != ValueOrigin::kNode) return body.inputs.size() > 1 && v == body.inputs[1];
    const Node& node = body.node(value.producer);
    if (node.op != "Identity" && node.op != "Cast") return false;
    v = node.inputs[0];
  }
}

Result<void> AddLoop(const Node& node, const Inference& inference, GraphCost* sum) {
  const Graph& body = *node.subgraphs[0].graph;
  std::vector<InferInput> inputs = {{TensorType::Of(DType::kI64, Shape{}), nullptr, nullptr},
                                    {TensorType::Of(DType::kBool, Shape{}), nullptr, nullptr}};
  for (size_t i = 2; i < body.inputs.size(); ++i) {
    // What the body takes in every trip: the node's result has the type that holds for them all.
    const size_t o = i - 2;
    const ValueId v =
        o < node.outputs.size() && node.outputs[o] != kNoValue ? node.outputs[o] : node.inputs[i];
    inputs.push_back({inference.types[static_cast<size_t>(v)], nullptr, nullptr});
  }
  const std::vector<Result<GraphCost>> costs = BodyCosts(node, inference, inputs);
  if (!costs[0].ok()) return costs[0].error();
  const auto input = [&](int i) {
    return i < node.explicit_inputs ? node.inputs[static_cast<size_t>(i)] : kNoValue;
  };
  const std::optional<int64_t> trips = KnownInt(inference, input(0));
  const std::optional<int64_t> condition = KnownInt(inference, input(1));
  if (condition == 0 || (trips && *trips <= 0)) return {};
  if (trips && NeverEndsEarly(body)) {
    Add(*costs[0], static_cast<double>(*trips), sum);
  } else {
    Add(*costs[0], 1, sum);
    ++sum->open_loops;
  }
  return {};
}

Result<void> AddControlFlow(const Node& node, const Inference& inference, GraphCost* sum) {
  return node.op == "If" ? AddIf(node, inference, sum) : AddLoop(node, inference, sum);
}

}  // namespace

Result<GraphCost> CostOf(const Graph& graph, std::span<const InferInput> inputs,
                         std::span<const InferInput> captures) {
  PX_ASSIGN_OR_RETURN(const Inference inference, ops::InferGraph(graph, inputs, captures));
  return CostOf(graph, inference);
}

Result<GraphCost> CostOf(const Graph& graph, const Inference& inference) {
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
