// Rewriter: finds patterns in a graph and replaces them, keeping who reads what.
//
// Role:       what fusion passes are written with. A pass walks the nodes in order; where a pattern
//             ends it builds one node that takes the place of the pattern's last one.
// Ownership:  borrows the graph; Finish, or the destructor, drops what was replaced.
// Threads:    used by one thread.
// Cost:       O(V + E) to make, the pattern's size for each replacement.
// Invariants: node ids stay until Finish. A replacement stands where the last node of its pattern
//             stood, so everything it reads was made before.
// Example:
//   Rewriter r(graph);
//   for (NodeId i = 0; i < r.size(); ++i) {
//     const Node* relu = r.Match(i, "Relu");
//     const NodeId conv = relu == nullptr ? kNoNode : r.OnlyFor(relu->inputs[0], i, "Conv");
//     if (conv != kNoNode) r.Replace(i, Fused(r.node(conv), *relu), {conv});
//   }
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace parallax::passes {

class Rewriter {
 public:
  explicit Rewriter(Graph* graph);
  ~Rewriter() { Finish(); }
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  NodeId size() const { return static_cast<NodeId>(graph_->nodes.size()); }
  const Node& node(NodeId i) const { return graph_->node(i); }
  const Value& value(ValueId v) const { return graph_->value(v); }
  Graph& graph() { return *graph_; }

  // The node when it is alive and that operator of ai.onnx (or of `domain`).
  const Node* Match(NodeId i, std::string_view op, std::string_view domain = "") const;
  // The node that makes `v`, or kNoNode for inputs, captures and constants.
  NodeId Producer(ValueId v) const;
  // The producer of `v` when it is that operator, makes nothing else that is read, and `reader` is
  // the only one that reads `v`, and once (not as x + x), which is no output of the graph.
  NodeId OnlyFor(ValueId v, NodeId reader, std::string_view op, std::string_view domain = "") const;
  // Whether `readers` are all that read `v`, which is no output of the graph.
  bool ReadOnlyBy(ValueId v, std::initializer_list<NodeId> readers) const;

  bool IsOutput(ValueId v) const { return is_output_[static_cast<size_t>(v)]; }

  // The value of a constant f32 with one element.
  std::optional<float> Scalar(ValueId v) const;
  // A constant f32 tensor, or null. Its bytes may be misaligned: a view of the model's file.
  const Tensor* FloatConstant(ValueId v) const;
  // The static shape of a value, or nothing.
  std::optional<Shape> ShapeOf(ValueId v) const { return value(v).type.shape(); }

  // A new value that Replace is to give a node.
  ValueId AddResult(std::string name, TensorType type);
  // A new constant.
  ValueId AddConstant(std::string name, Tensor tensor);
  // Node `at` becomes `fused`, which makes the same outputs; the others are dropped.
  void Replace(NodeId at, Node fused, std::span<const NodeId> dropped);
  void Replace(NodeId at, Node fused, std::initializer_list<NodeId> dropped) {
    Replace(at, std::move(fused), std::span<const NodeId>(dropped.begin(), dropped.size()));
  }
  // Node `i` reads `v` as its input.
  void SetInput(NodeId i, size_t input, ValueId v);
  // Everything that reads `from` reads `to` instead, outputs of the graph included.
  void Redirect(ValueId from, ValueId to);
  // Drops the node, whose outputs nobody may read any more.
  void Drop(NodeId i);

  // Drops what was replaced and rebuilds ids. Nothing else may be called afterwards.
  void Finish();

 private:
  ValueId Add(Value value);
  void Unlink(NodeId i);
  void Link(NodeId i);

  Graph* graph_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> is_output_;
  std::vector<bool> dead_;
};

// A node of an operator of this project's own domain.
Node MakeFused(std::string op, const Node& named_after, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs);
inline constexpr std::string_view kOwnDomain = "parallax";

}  // namespace parallax::passes
