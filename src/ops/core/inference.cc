#include "ops/core/inference.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "ops/core/dims.h"
#include "ops/core/evaluate.h"
#include "ops/core/table.h"

namespace parallax::ops {
namespace {

// Constants up to this size are computed while inferring: shape arithmetic, masks and position
// tables that depend on shapes alone.
constexpr int64_t kMaxFoldedElements = 1 << 18;

Error InNode(const Graph& graph, const Node& node, const Error& error) {
  return error.WithContext("node " + node.Describe(graph));
}

std::string TypeNames(TypeSet set) {
  std::string s;
  for (unsigned d = 1; d <= static_cast<unsigned>(DType::kString); ++d) {
    if ((set >> d & 1u) == 0) continue;
    if (!s.empty()) s += ' ';
    s += Name(static_cast<DType>(d));
  }
  return s;
}

// Checks element types against the schema and gives the type bound to each tie letter.
Result<std::map<char, DType>> CheckTypes(const OpDef& def, const Node& node,
                                         std::span<const InferContext::Input> inputs) {
  std::map<char, DType> ties;
  for (int i = 0; i < node.explicit_inputs; ++i) {
    const TensorType* type = inputs[static_cast<size_t>(i)].type;
    const Param* param = InputParam(def, node.opset, i);
    if (node.inputs[static_cast<size_t>(i)] == kNoValue || type == nullptr || param == nullptr) {
      continue;
    }
    if ((param->types & Bit(type->dtype)) == 0) {
      return Invalid("input {} ('{}') is {}, should be one of: {}", i, param->name,
                     Name(type->dtype), TypeNames(param->types));
    }
    if (param->tie == 0 || param->tie == '*') continue;
    auto [it, inserted] = ties.emplace(param->tie, type->dtype);
    if (!inserted && it->second != type->dtype) {
      return Invalid("input {} ('{}') is {}, but another input of the same type is {}", i,
                     param->name, Name(type->dtype), Name(it->second));
    }
  }
  return ties;
}

// What control-flow nodes remember during one pass over a graph and its bodies.
using BodyMemory = std::map<const Node*, std::vector<TensorType>>;

Result<Inference> InferWithMemory(const Graph& graph, std::span<const InferInput> inputs,
                                  std::span<const InferInput> captures, BodyMemory* memory);

// Serves InferBody of If and Loop: the bodies' captures are the node's last inputs.
class NodeBodies final : public BodyInference {
 public:
  NodeBodies(const Node& node, std::span<const InferContext::Input> inputs, BodyMemory* memory)
      : node_(node), inputs_(inputs), memory_(memory) {}

  Result<std::vector<TensorType>> Infer(std::string_view attribute,
                                        std::span<const TensorType> body_inputs) override {
    size_t capture = static_cast<size_t>(node_.explicit_inputs);
    for (const Subgraph& s : node_.subgraphs) {
      if (s.attribute != attribute) {
        capture += s.graph->captures.size();
        continue;
      }
      std::vector<InferInput> captures;
      for (size_t i = 0; i < s.graph->captures.size(); ++i) {
        const InferContext::Input& outer = inputs_[capture + i];
        captures.push_back({*outer.type, outer.constant, outer.dim_values});
      }
      std::vector<InferInput> given;
      for (const TensorType& t : body_inputs) given.push_back({t, nullptr, nullptr});
      PX_ASSIGN_OR_RETURN(Inference inference, InferWithMemory(*s.graph, given, captures, memory_));
      std::vector<TensorType> outputs;
      for (ValueId v : s.graph->outputs) {
        outputs.push_back(inference.types[static_cast<size_t>(v)]);
      }
      return outputs;
    }
    return MakeError(ErrorCode::kInternal, "node has no body '{}'", attribute);
  }

  std::vector<TensorType>& memory() override { return (*memory_)[&node_]; }

 private:
  const Node& node_;
  std::span<const InferContext::Input> inputs_;
  BodyMemory* memory_;
};

// Bit i: the schema says that input i steers. Sets `open` when one of them has no value yet.
Result<uint64_t> SteeringInputs(const OpDef& def, const Node& node,
                                std::span<const InferContext::Input> inputs, bool* open) {
  uint64_t steering = 0;
  for (int i = 0; i < node.explicit_inputs && i < 64; ++i) {
    const Param* param = InputParam(def, node.opset, i);
    if (param == nullptr || !param->steers || node.inputs[static_cast<size_t>(i)] == kNoValue) {
      continue;
    }
    steering |= uint64_t{1} << i;
    const InferContext::Input& in = inputs[static_cast<size_t>(i)];
    if (in.constant == nullptr) {
      *open = true;
    } else if (in.constant->elements() > kMaxSteeringValues) {
      return Invalid("input {} ('{}') has {} elements, more than {}", i, param->name,
                     in.constant->elements(), kMaxSteeringValues);
    }
  }
  return steering;
}

// Whether `values` can be the elements of a tensor of that type.
bool FitsAsDims(const TensorType& type, const Dims& values) {
  if (type.dtype != DType::kI64 && type.dtype != DType::kI32) return false;
  if (!type.is_static() || type.rank() > 1) return false;
  const size_t elements = type.rank() == 0 ? 1 : static_cast<size_t>(type.dims[0].extent);
  return values.size() == elements &&
         (type.dtype == DType::kI64 || std::all_of(values.begin(), values.end(), [](const Dim& d) {
            return d.extent <= std::numeric_limits<int32_t>::max();
          }));
}

Result<NodeInference> InferWith(const OpDef& def, const Node& node,
                                std::span<const InferContext::Input> inputs, BodyMemory* memory) {
  PX_RETURN_IF_ERROR(CheckSchema(def, node));
  PX_ASSIGN_OR_RETURN(auto ties, CheckTypes(def, node, inputs));
  NodeInference result;
  result.outputs.resize(node.outputs.size());
  result.dim_values.resize(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Param* param = OutputParam(def, node.opset, static_cast<int>(i));
    if (param == nullptr) continue;
    if (auto it = ties.find(param->tie); param->tie != 0 && it != ties.end()) {
      result.outputs[i].dtype = it->second;
    } else if (std::has_single_bit(param->types)) {
      result.outputs[i].dtype = static_cast<DType>(std::countr_zero(param->types));
    }
  }
  NodeBodies bodies(node, inputs, memory);
  PX_ASSIGN_OR_RETURN(uint64_t steering, SteeringInputs(def, node, inputs, &result.open));
  InferContext context(node, inputs.first(static_cast<size_t>(node.explicit_inputs)),
                       result.outputs, result.dim_values, &bodies, steering);
  PX_RETURN_IF_ERROR(def.infer(context));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const TensorType& t = result.outputs[i];
    if (t.dtype == DType::kUndefined) {
      return MakeError(ErrorCode::kInternal, "the element type of output {} is not known", i);
    }
    if (result.dim_values[i] && (result.open || !FitsAsDims(t, *result.dim_values[i]))) {
      result.dim_values[i].reset();
    }
    // Also of shapes that are known in part: later sums and products start from small extents.
    std::vector<int64_t> extents;
    for (const Dim& d : t.dims) {
      if (d.known()) extents.push_back(d.extent);
    }
    Result<Shape> shape = Shape::Make(extents);
    if (!shape.ok()) return shape.error().WithContext(fmt::format("output {}", i));
  }
  return result;
}

// The tensor that `values` (all known) stand for. REQUIRES: FitsAsDims.
Result<Tensor> TensorOfDims(const TensorType& type, const Dims& values) {
  Shape shape;
  if (type.rank() != 0) shape.Append(static_cast<int64_t>(values.size()));
  PX_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(type.dtype, shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type.dtype == DType::kI32) {
      t.mutable_data<int32_t>()[i] = static_cast<int32_t>(values[i].extent);
    } else {
      t.mutable_data<int64_t>()[i] = values[i].extent;
    }
  }
  return t;
}

bool AllKnown(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.known(); });
}

Result<NodeInference> InferNodeWith(const Graph& graph, const Node& node,
                                    std::span<const InferContext::Input> inputs,
                                    BodyMemory* memory) {
  const OpDef* def = FindOp(node.domain, node.op, node.opset);
  if (def == nullptr) {
    return InNode(graph, node,
                  MakeError(ErrorCode::kUnsupported, "no operator {} at opset {}",
                            node.QualifiedOp(), node.opset));
  }
  Result<NodeInference> result = InferWith(*def, node, inputs, memory);
  if (!result.ok()) return InNode(graph, node, result.error());
  return result;
}

class GraphInference {
 public:
  GraphInference(const Graph& graph, BodyMemory* memory)
      : graph_(graph), team_(1), memory_(memory) {
    const size_t n = graph.values.size();
    r_.types.resize(n);
    r_.constants.resize(n);
    r_.dim_values.resize(n);
    r_.open.resize(graph.nodes.size());
  }

  Result<Inference> Run(std::span<const InferInput> inputs, std::span<const InferInput> captures) {
    Seed(graph_.inputs, inputs);
    Seed(graph_.captures, captures);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.origin != ValueOrigin::kConstant) continue;
      r_.constants[v] = value.constant;
      r_.types[v] = TensorType::Of(value.constant.dtype(), value.constant.shape());
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) PX_RETURN_IF_ERROR(Visit(i));
    return std::move(r_);
  }

 private:
  void Seed(const std::vector<ValueId>& ids, std::span<const InferInput> given) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t v = static_cast<size_t>(ids[i]);
      r_.types[v] = given[i].type;
      if (given[i].constant != nullptr) {
        // What is declared may be less, or other, than what is there.
        r_.constants[v] = *given[i].constant;
        r_.types[v] = TensorType::Of(r_.constants[v].dtype(), r_.constants[v].shape());
      }
      if (given[i].dim_values != nullptr) r_.dim_values[v] = *given[i].dim_values;
    }
  }

  Result<void> Visit(size_t index) {
    const Node& node = graph_.nodes[index];
    inputs_.assign(node.inputs.size(), {});
    bool all_constant = true;
    int64_t elements = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const size_t v = static_cast<size_t>(node.inputs[i]);
      inputs_[i].type = &r_.types[v];
      if (r_.constants[v].defined()) {
        inputs_[i].constant = &r_.constants[v];
        elements += r_.constants[v].elements();
      } else {
        all_constant = false;
      }
      if (r_.dim_values[v]) inputs_[i].dim_values = &*r_.dim_values[v];
    }
    PX_ASSIGN_OR_RETURN(NodeInference result, InferNodeWith(graph_, node, inputs_, memory_));
    r_.open[index] = result.open;
    const OpDef* def = FindOp(node.domain, node.op, node.opset);
    for (const TensorType& t : result.outputs) {
      if (std::optional<Shape> s = t.shape()) elements += s->elements();
    }
    std::vector<Tensor> folded;
    if (all_constant && elements <= kMaxFoldedElements && !def->control_flow &&
        !def->nondeterministic && !def->data_dependent) {
      std::vector<const Tensor*> tensors;
      for (const InferContext::Input& in : inputs_) tensors.push_back(in.constant);
      Result<std::vector<Tensor>> values = Evaluate(graph_, node, tensors, team_);
      // What only values make wrong (an index outside) is the run's to report: the node may stand
      // in a branch that is never taken.
      if (!values.ok() && values.error().code() == ErrorCode::kOutOfMemory) return values.error();
      if (values.ok()) folded = std::move(*values);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const size_t v = static_cast<size_t>(node.outputs[i]);
      r_.types[v] = std::move(result.outputs[i]);
      std::optional<Dims>& values = result.dim_values[i];
      if (!folded.empty()) {
        r_.constants[v] = std::move(folded[i]);
      } else if (values && AllKnown(*values)) {
        PX_ASSIGN_OR_RETURN(r_.constants[v], TensorOfDims(r_.types[v], *values));
      } else {
        r_.dim_values[v] = std::move(values);
      }
    }
    return {};
  }

  const Graph& graph_;
  Team team_;
  BodyMemory* memory_;
  Inference r_;
  std::vector<InferContext::Input> inputs_;
};

Result<Inference> InferWithMemory(const Graph& graph, std::span<const InferInput> inputs,
                                  std::span<const InferInput> captures, BodyMemory* memory) {
  if (inputs.size() != graph.inputs.size() || captures.size() != graph.captures.size()) {
    return MakeError(ErrorCode::kInvalidModel, "graph '{}' takes {} inputs, {} are given",
                     graph.name, graph.inputs.size(), inputs.size());
  }
  return GraphInference(graph, memory).Run(inputs, captures);
}

}  // namespace

Result<NodeInference> InferNode(const Graph& graph, const Node& node,
                                std::span<const InferContext::Input> inputs) {
  BodyMemory memory;
  return InferNodeWith(graph, node, inputs, &memory);
}

Result<Inference> InferGraph(const Graph& graph, std::span<const InferInput> inputs,
                             std::span<const InferInput> captures) {
  BodyMemory memory;
  return InferWithMemory(graph, inputs, captures, &memory);
}

std::vector<InferInput> DeclaredInputs(const Graph& graph) {
  std::vector<InferInput> inputs;
  for (ValueId v : graph.inputs) inputs.push_back({graph.value(v).type, nullptr, nullptr});
  return inputs;
}

Cost EstimateCost(const Node& node, std::span<const TensorInfo> inputs,
                  std::span<const TensorInfo> outputs) {
  const OpDef* def = FindOp(node.domain, node.op, node.opset);
  Cost cost;
  if (def == nullptr) return cost;
  if (def->control_flow) {
    cost.op_class = OpClass::kControl;
  } else if (std::any_of(def->aliases.begin(), def->aliases.end(),
                         [](const Alias& a) { return a.kind == AliasKind::kView; })) {
    cost.op_class = OpClass::kView;
    return cost;
  } else if (def->cost != nullptr) {
    cost = def->cost(CostContext(node, inputs, outputs));
  } else {
    for (const TensorInfo& t : outputs) {
      if (t.dtype != DType::kUndefined) cost.flops += static_cast<double>(t.shape.elements());
    }
  }
  const auto bytes = [](std::span<const TensorInfo> tensors) {
    double sum = 0;
    for (const TensorInfo& t : tensors) {
      sum += static_cast<double>(t.shape.elements()) * static_cast<double>(SizeOf(t.dtype));
    }
    return sum;
  };
  cost.bytes_read = bytes(inputs);
  cost.bytes_written = bytes(outputs);
  return cost;
}

}  // namespace parallax::ops
