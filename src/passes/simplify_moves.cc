// Fewer nodes that only move or rename elements:
//
//   Reshape, Squeeze, Unsqueeze, Flatten of one another    one Reshape, or nothing
//   Transpose of a Transpose                               one Transpose, or nothing
//   Transpose that moves extents of 1 only                 Reshape, which copies nothing
//   Slice, Expand, Pad, Tile, Concat that change nothing   nothing
//   Expand before Add, Sub, Mul, Div with a full operand   nothing: they broadcast themselves
//
// Contract: static shapes, and constant axes, shapes and sizes: what only a run can find wrong stays.
// Results keep their bits.
#include <algorithm>
#include <array>
#include <vector>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

constexpr std::array<std::string_view, 4> kViews = {"Reshape", "Squeeze", "Unsqueeze", "Flatten"};
constexpr std::array<std::string_view, 4> kBroadcasting = {"Add", "Sub", "Mul", "Div"};
constexpr int64_t kMaxInts = 4 * kMaxRank;

using Permutation = std::vector<int64_t>;

class MoveSimplifier {
 public:
  explicit MoveSimplifier(Graph* graph) : r_(graph) {}

  void Run() {
    for (NodeId i = 0; i < r_.size(); ++i) {
      const Node& n = r_.node(i);
      if (!n.domain.empty() || n.outputs.size() != 1 || n.inputs.empty()) continue;
      const bool simpler = IsNothing(n) ? Remove(i, n.inputs[0]) : MergeViews(i) || Merge(i);
      if (!simpler) DropExpand(i);
    }
  }

 private:
  std::optional<std::vector<int64_t>> Ints(const Node& n, size_t input) const {
    if (n.inputs.size() <= input || n.inputs[input] == kNoValue) return std::nullopt;
    const Value& v = r_.value(n.inputs[input]);
    std::vector<int64_t> ints;
    if (v.origin != ValueOrigin::kConstant || !ReadInts(v.constant, kMaxInts, &ints)) {
      return std::nullopt;
    }
    return ints;
  }
  bool SameShape(ValueId a, ValueId b) const {
    const std::optional<Shape> shape = r_.ShapeOf(a);
    return shape && shape == r_.ShapeOf(b);
  }

  // Whether everything but input 0 is known.
  bool IsSettled(const Node& n) const {
    return std::all_of(n.inputs.begin() + 1, n.inputs.end(), [&](ValueId v) {
      return v == kNoValue || r_.value(v).origin == ValueOrigin::kConstant;
    });
  }

  // Whether the output is input 0, element for element.
  bool IsNothing(const Node& n) const {
    if (n.inputs[0] == kNoValue || n.outputs[0] == kNoValue || !IsSettled(n) ||
        !SameShape(n.inputs[0], n.outputs[0])) {
      return false;
    }
    if (IsView(n) || n.op == "Expand" || n.op == "Tile") return true;
    if (n.op == "Concat") return n.inputs.size() == 1;
    if (n.op == "Slice") {  // all of every axis: forwards, unless a step says otherwise
      if (n.inputs.size() <= 4 || n.inputs[4] == kNoValue) return true;
      const auto steps = Ints(n, 4);
      return steps && std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s > 0; });
    }
    if (n.op == "Pad") {
      const std::vector<int64_t>* attribute = n.attributes.Ints("pads");
      const auto pads = attribute != nullptr ? *attribute : Ints(n, 1);
      return pads && std::all_of(pads->begin(), pads->end(), [](int64_t p) { return p == 0; });
    }
    return false;
  }
  bool Remove(NodeId i, ValueId same) {
    r_.Redirect(r_.node(i).outputs[0], same);
    r_.Drop(i);
    return true;
  }

  static bool IsView(const Node& n) {
    return n.domain.empty() && std::find(kViews.begin(), kViews.end(), n.op) != kViews.end();
  }
  // Node i becomes a Reshape of x, which has elements, to the shape of its output.
  bool PutReshape(NodeId i, ValueId x) {
    const ValueId out = r_.node(i).outputs[0];
    const std::optional<Shape> shape = r_.ShapeOf(out);
    if (!shape || !r_.ShapeOf(x) || shape->elements() == 0) return false;  // 0 has a meaning there
    const std::vector<int64_t> extents(shape->dims().begin(), shape->dims().end());
    Result<Tensor> t = Tensor::From<int64_t>(Shape{shape->rank()}, extents);
    if (!t.ok()) return false;
    Node n;
    n.name = r_.node(i).name;
    n.op = "Reshape";
    n.opset = 13;
    n.inputs = {x, r_.AddConstant(n.name + "_shape", std::move(*t))};
    n.outputs = {out};
    n.explicit_inputs = 2;
    r_.Replace(i, std::move(n), {});
    return true;
  }
  bool MergeViews(NodeId i) {
    const Node& n = r_.node(i);
    if (!IsView(n) || !IsSettled(n)) return false;
    const NodeId before = r_.Producer(n.inputs[0]);
    if (before == kNoNode || !IsView(r_.node(before)) || !IsSettled(r_.node(before))) return false;
    // Nodes before were merged already: one step back is all the way.
    const ValueId x = r_.node(before).inputs[0];
    return SameShape(x, n.outputs[0]) ? Remove(i, x) : PutReshape(i, x);
  }

  std::optional<Permutation> PermutationOf(NodeId i) const {
    const Node* n = i == kNoNode ? nullptr : r_.Match(i, "Transpose");
    const std::optional<Shape> shape = n == nullptr ? std::nullopt : r_.ShapeOf(n->inputs[0]);
    if (!shape) return std::nullopt;
    if (const std::vector<int64_t>* perm = n->attributes.Ints("perm")) return *perm;
    Permutation reverse;
    for (int d = shape->rank(); d-- > 0;) reverse.push_back(d);
    return reverse;
  }
  bool Merge(NodeId i) {
    std::optional<Permutation> perm = PermutationOf(i);
    if (!perm) return false;
    const NodeId before = r_.Producer(r_.node(i).inputs[0]);
    const std::optional<Permutation> first = PermutationOf(before);
    ValueId x = r_.node(i).inputs[0];
    if (first) {
      for (int64_t& d : *perm) d = (*first)[static_cast<size_t>(d)];
      x = r_.node(before).inputs[0];
    }
    if (std::is_sorted(perm->begin(), perm->end())) return Remove(i, x);
    // Extents above 1 in the order they had.
    const Shape shape = *r_.ShapeOf(x);
    Permutation moved = *perm;
    std::erase_if(moved, [&](int64_t d) { return shape[static_cast<int>(d)] == 1; });
    if (std::is_sorted(moved.begin(), moved.end())) {
      if (SameShape(x, r_.node(i).outputs[0])) return Remove(i, x);
      if (PutReshape(i, x)) {
        MergeViews(i);
        return true;
      }
    }
    if (!first) return false;
    Node n;
    n.name = r_.node(i).name;
    n.op = "Transpose";
    n.opset = r_.node(i).opset;
    n.inputs = {x};
    n.outputs = r_.node(i).outputs;
    n.explicit_inputs = 1;
    n.attributes.Set("perm", std::move(*perm));
    r_.Replace(i, std::move(n), {});
    return true;
  }

  void DropExpand(NodeId i) {
    const Node& n = r_.node(i);
    if (std::find(kBroadcasting.begin(), kBroadcasting.end(), n.op) == kBroadcasting.end()) return;
    for (size_t k : {0, 1}) {
      const NodeId expand = r_.Producer(n.inputs[k]);
      if (expand == kNoNode || r_.Match(expand, "Expand") == nullptr) continue;
      if (!IsSettled(r_.node(expand)) || !SameShape(n.inputs[1 - k], n.outputs[0])) continue;
      Node same;
      same.name = n.name;
      same.op = n.op;
      same.opset = n.opset;
      same.inputs = n.inputs;
      same.inputs[k] = r_.node(expand).inputs[0];
      same.outputs = n.outputs;
      same.explicit_inputs = 2;
      same.attributes = n.attributes;
      r_.Replace(i, std::move(same), {});
      return;
    }
  }

  Rewriter r_;
};

}  // namespace

void SimplifyMoves(Graph* graph) {
  MoveSimplifier(graph).Run();
  RemoveDeadCode(graph);  // what the merged nodes no longer read
}

}  // namespace parallax::passes
