#include "ir/graph.h"

#include <algorithm>

#include <fmt/format.h>

namespace parallax {

const Graph* Node::Body(std::string_view attribute) const {
  for (const Subgraph& s : subgraphs) {
    if (s.attribute == attribute) return s.graph.get();
  }
  return nullptr;
}

std::string Node::QualifiedOp() const { return domain.empty() ? op : domain + "::" + op; }

std::string Node::Label(const Graph& graph) const {
  if (!name.empty()) return fmt::format("'{}'", name);
  for (ValueId v : outputs) {
    if (v != kNoValue) return fmt::format("producing '{}'", graph.value(v).name);
  }
  return "without a name";
}

std::string Node::Describe(const Graph& graph) const {
  return fmt::format("{} ({})", Label(graph), QualifiedOp());
}

ValueId Graph::AddValue(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

int Graph::FindInput(std::string_view input_name) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (value(inputs[i]).name == input_name) return static_cast<int>(i);
  }
  return -1;
}

namespace {

Result<void> Broken(const Graph& graph, std::string_view what) {
  return MakeError(ErrorCode::kInternal, "graph '{}': {}", graph.name, what);
}

}  // namespace

Result<void> Graph::Verify() const {
  const auto valid = [&](ValueId v) { return v >= 0 && static_cast<size_t>(v) < values.size(); };
  std::vector<bool> ready(values.size(), false);
  for (ValueId v : inputs) {
    if (!valid(v) || value(v).origin != ValueOrigin::kInput) return Broken(*this, "bad input");
    ready[static_cast<size_t>(v)] = true;
  }
  for (ValueId v : captures) {
    if (!valid(v) || value(v).origin != ValueOrigin::kCapture) return Broken(*this, "bad capture");
    ready[static_cast<size_t>(v)] = true;
  }
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].origin == ValueOrigin::kConstant) {
      if (!values[v].constant.defined()) return Broken(*this, "constant without a value");
      ready[v] = true;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& n = nodes[i];
    for (ValueId v : n.inputs) {
      if (v == kNoValue) continue;
      if (!valid(v) || !ready[static_cast<size_t>(v)]) {
        return Broken(*this, fmt::format("node {} reads a value before it exists", i));
      }
    }
    size_t captured = 0;
    for (const Subgraph& s : n.subgraphs) {
      captured += s.graph->captures.size();
      PX_RETURN_IF_ERROR(s.graph->Verify());
    }
    if (static_cast<size_t>(n.explicit_inputs) + captured != n.inputs.size()) {
      return Broken(*this, fmt::format("node {}: captures do not match its bodies", i));
    }
    for (ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      if (!valid(v) || ready[static_cast<size_t>(v)] || value(v).origin != ValueOrigin::kNode ||
          value(v).producer != static_cast<NodeId>(i)) {
        return Broken(*this, fmt::format("node {}: bad output", i));
      }
      ready[static_cast<size_t>(v)] = true;
    }
  }
  if (output_names.size() != outputs.size()) return Broken(*this, "outputs without names");
  for (ValueId v : outputs) {
    if (!valid(v) || !ready[static_cast<size_t>(v)]) return Broken(*this, "output nobody makes");
  }
  return {};
}

Graph Graph::Clone() const {
  Graph copy;
  copy.name = name;
  copy.values = values;
  copy.inputs = inputs;
  copy.outputs = outputs;
  copy.output_names = output_names;
  copy.captures = captures;
  copy.nodes.reserve(nodes.size());
  for (const Node& n : nodes) {
    Node& to = copy.nodes.emplace_back();
    to.name = n.name;
    to.op = n.op;
    to.domain = n.domain;
    to.opset = n.opset;
    to.inputs = n.inputs;
    to.outputs = n.outputs;
    to.explicit_inputs = n.explicit_inputs;
    to.attributes = n.attributes;
    for (const Subgraph& s : n.subgraphs) {
      to.subgraphs.push_back({s.attribute, std::make_unique<Graph>(s.graph->Clone())});
    }
  }
  return copy;
}

Result<void> CheckInput(const Model& model, size_t i, DType dtype, const Shape& shape) {
  const Value& value = model.graph.value(model.graph.inputs[i]);
  const TensorType& wanted = value.type;
  bool fits = dtype == wanted.dtype && (!wanted.ranked || wanted.rank() == shape.rank());
  for (int d = 0; fits && d < wanted.rank(); ++d) {
    const Dim& dim = wanted.dims[static_cast<size_t>(d)];
    if (dim.known()) fits = dim.extent == shape[d];
  }
  if (fits) return {};
  return MakeError(ErrorCode::kInvalidArgument, "input '{}': wanted {}, found {}{}", value.name,
                   ToString(wanted, model.symbols), Name(dtype), shape.ToString());
}

std::vector<std::vector<NodeId>> Readers(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId v : graph.nodes[i].inputs) {
      if (v == kNoValue) continue;
      std::vector<NodeId>& r = readers[static_cast<size_t>(v)];
      if (r.empty() || r.back() != static_cast<NodeId>(i)) r.push_back(static_cast<NodeId>(i));
    }
  }
  return readers;
}

void Compact(Graph* graph, const std::vector<bool>& dead_nodes) {
  std::vector<bool> used(graph->values.size(), false);
  const auto mark = [&](const std::vector<ValueId>& ids) {
    for (ValueId v : ids) {
      if (v != kNoValue) used[static_cast<size_t>(v)] = true;
    }
  };
  mark(graph->inputs);
  mark(graph->outputs);
  mark(graph->captures);
  std::vector<Node> nodes;
  nodes.reserve(graph->nodes.size());
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    if (dead_nodes[i]) continue;
    mark(graph->nodes[i].inputs);
    mark(graph->nodes[i].outputs);
    nodes.push_back(std::move(graph->nodes[i]));
  }
  std::vector<ValueId> renamed(graph->values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t v = 0; v < graph->values.size(); ++v) {
    if (!used[v]) continue;
    renamed[v] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph->values[v]));
  }
  const auto rename = [&](std::vector<ValueId>* ids) {
    for (ValueId& v : *ids) {
      if (v != kNoValue) v = renamed[static_cast<size_t>(v)];
    }
  };
  rename(&graph->inputs);
  rename(&graph->outputs);
  rename(&graph->captures);
  for (size_t i = 0; i < nodes.size(); ++i) {
    rename(&nodes[i].inputs);
    rename(&nodes[i].outputs);
    for (ValueId v : nodes[i].outputs) {
      if (v != kNoValue) values[static_cast<size_t>(v)].producer = static_cast<NodeId>(i);
    }
  }
  graph->nodes = std::move(nodes);
  graph->values = std::move(values);
}

}  // namespace parallax
