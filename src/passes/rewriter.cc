#include "passes/rewriter.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace parallax::passes {

Rewriter::Rewriter(Graph* graph)
    : graph_(graph),
      readers_(Readers(*graph)),
      is_output_(graph->values.size(), false),
      dead_(graph->nodes.size(), false) {
  for (ValueId v : graph->outputs) is_output_[static_cast<size_t>(v)] = true;
}

const Node* Rewriter::Match(NodeId i, std::string_view op, std::string_view domain) const {
  if (dead_[static_cast<size_t>(i)]) return nullptr;
  const Node& n = node(i);
  return n.op == op && n.domain == domain ? &n : nullptr;
}

NodeId Rewriter::Producer(ValueId v) const {
  if (v == kNoValue || value(v).origin != ValueOrigin::kNode) return kNoNode;
  return value(v).producer;
}

NodeId Rewriter::OnlyFor(ValueId v, NodeId reader, std::string_view op,
                         std::string_view domain) const {
  const NodeId producer = Producer(v);
  if (producer == kNoNode || Match(producer, op, domain) == nullptr) return kNoNode;
  for (ValueId out : node(producer).outputs) {
    if (out == kNoValue || out == v) continue;
    if (!readers_[static_cast<size_t>(out)].empty() || is_output_[static_cast<size_t>(out)]) {
      return kNoNode;
    }
  }
  const std::vector<ValueId>& reads = node(reader).inputs;
  const bool once = std::count(reads.begin(), reads.end(), v) == 1;
  return once && ReadOnlyBy(v, {reader}) ? producer : kNoNode;
}

bool Rewriter::ReadOnlyBy(ValueId v, std::initializer_list<NodeId> readers) const {
  if (is_output_[static_cast<size_t>(v)]) return false;
  const std::vector<NodeId>& all = readers_[static_cast<size_t>(v)];
  return std::all_of(all.begin(), all.end(), [&](NodeId r) {
    return std::find(readers.begin(), readers.end(), r) != readers.end();
  });
}

const Tensor* Rewriter::FloatConstant(ValueId v) const {
  if (v == kNoValue || value(v).origin != ValueOrigin::kConstant) return nullptr;
  const Tensor& t = value(v).constant;
  return t.dtype() == DType::kF32 ? &t : nullptr;
}

std::optional<float> Rewriter::Scalar(ValueId v) const {
  const Tensor* t = FloatConstant(v);
  if (t == nullptr || t->elements() != 1) return std::nullopt;
  float scalar = 0;
  std::memcpy(&scalar, t->bytes_begin(), sizeof scalar);
  return scalar;
}

ValueId Rewriter::Add(Value value) {
  readers_.emplace_back();
  is_output_.push_back(false);
  return graph_->AddValue(std::move(value));
}

ValueId Rewriter::AddResult(std::string name, TensorType type) {
  Value value;
  value.name = std::move(name);
  value.type = std::move(type);
  return Add(std::move(value));
}

ValueId Rewriter::AddConstant(std::string name, Tensor tensor) {
  Value value;
  value.name = std::move(name);
  value.type = TensorType::Of(tensor.dtype(), tensor.shape());
  value.origin = ValueOrigin::kConstant;
  value.constant = std::move(tensor);
  return Add(std::move(value));
}

void Rewriter::Unlink(NodeId i) {
  for (ValueId v : node(i).inputs) {
    if (v != kNoValue) std::erase(readers_[static_cast<size_t>(v)], i);
  }
}

void Rewriter::Link(NodeId i) {
  for (ValueId v : node(i).inputs) {
    if (v == kNoValue) continue;
    std::vector<NodeId>& r = readers_[static_cast<size_t>(v)];
    if (std::find(r.begin(), r.end(), i) == r.end()) r.push_back(i);
  }
}

void Rewriter::Replace(NodeId at, Node fused, std::span<const NodeId> dropped) {
  Unlink(at);
  for (NodeId d : dropped) {
    if (d != at) Drop(d);
  }
  graph_->node(at) = std::move(fused);
  for (ValueId v : node(at).outputs) {
    if (v != kNoValue) graph_->value(v).producer = at;
  }
  Link(at);
}

void Rewriter::SetInput(NodeId i, size_t input, ValueId v) {
  Unlink(i);
  graph_->node(i).inputs[input] = v;
  Link(i);
}

void Rewriter::Redirect(ValueId from, ValueId to) {
  std::vector<NodeId> readers = std::move(readers_[static_cast<size_t>(from)]);
  readers_[static_cast<size_t>(from)].clear();
  for (NodeId r : readers) {
    for (ValueId& v : graph_->node(r).inputs) {
      if (v == from) v = to;
    }
    Link(r);
  }
  for (ValueId& v : graph_->outputs) {
    if (v == from) v = to;
  }
  if (is_output_[static_cast<size_t>(from)]) is_output_[static_cast<size_t>(to)] = true;
  is_output_[static_cast<size_t>(from)] = false;
}

void Rewriter::Drop(NodeId i) {
  if (dead_[static_cast<size_t>(i)]) return;
  Unlink(i);
  dead_[static_cast<size_t>(i)] = true;
}

void Rewriter::Finish() {
  if (graph_ == nullptr) return;
  Compact(graph_, dead_);
  graph_ = nullptr;
}

Node MakeFused(std::string op, const Node& named_after, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs) {
  Node n;
  n.name = named_after.name;
  n.op = std::move(op);
  n.domain = kOwnDomain;
  n.opset = 1;
  n.explicit_inputs = static_cast<int>(inputs.size());
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return n;
}

}  // namespace parallax::passes
