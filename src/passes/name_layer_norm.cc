// Gives layer normalisation that older opsets spell out the one operator it is:
//
//   d = x - ReduceMean(x),  d / Sqrt(ReduceMean(d d) + epsilon) [* scale] [+ bias]
//
// where d d is Pow(d, 2) or Mul(d, d), and the quotient may be d * Reciprocal(Sqrt(...)) or
// d * Pow(..., -1/2), becomes LayerNormalization.
//
// Contract: static f32 values; both means over the last axes, kept as extents of 1; scale and bias
// have the extents of those axes, with leading ones or without. Inner values are read by the pattern
// only. Results differ from the spelled out ones by rounding.
#include <algorithm>
#include <set>
#include <vector>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

class LayerNormNamer {
 public:
  explicit LayerNormNamer(Graph* graph) : r_(graph) {}

  void Run() {
    for (NodeId i = 0; i < r_.size(); ++i) {
      if (!Normalize(i) && !Scale(i)) Bias(i);
    }
  }

 private:
  // The first of the axes the node takes means over, if they are all from there on and kept.
  std::optional<int> MeanAxis(NodeId i) const {
    const Node& n = r_.node(i);
    const int rank = r_.value(n.inputs[0]).type.rank();
    std::vector<int64_t> axes;
    if (n.inputs.size() > 1 && n.inputs[1] != kNoValue) {
      const Value& v = r_.value(n.inputs[1]);
      if (v.origin != ValueOrigin::kConstant || !ReadInts(v.constant, rank, &axes)) {
        return std::nullopt;
      }
    } else if (const std::vector<int64_t>* a = n.attributes.Ints("axes")) {
      axes = *a;
    }
    if (axes.empty() || n.attributes.Int("keepdims", 1) != 1) return std::nullopt;
    std::set<int64_t> all;
    for (int64_t a : axes) all.insert(a < 0 ? a + rank : a);
    const int64_t first = *all.begin();
    if (first < 0 || *all.rbegin() != rank - 1 || rank - first != static_cast<int64_t>(all.size()))
      return std::nullopt;
    return static_cast<int>(first);
  }
  // v = a + constant scalar: a and the scalar.
  std::optional<std::pair<ValueId, float>> PlusScalar(NodeId add) const {
    const Node& n = r_.node(add);
    for (size_t k : {0, 1}) {
      if (const auto s = r_.Scalar(n.inputs[1 - k])) return std::pair(n.inputs[k], *s);
    }
    return std::nullopt;
  }
  bool IsScalar(ValueId v, float wanted) const { return r_.Scalar(v) == wanted; }

  // The variance of d under `root`, which is Sqrt(variance + epsilon), or Pow(.., 1/2 or -1/2).
  struct Deviation {
    NodeId add = kNoNode, mean = kNoNode, square = kNoNode;
    ValueId d = kNoValue;
    float epsilon = 0;
    int axis = 0;
  };
  std::optional<Deviation> DeviationOf(NodeId root) const {
    Deviation v;
    v.add = r_.OnlyFor(r_.node(root).inputs[0], root, "Add");
    const auto sum = v.add == kNoNode ? std::nullopt : PlusScalar(v.add);
    if (!sum || !(sum->second >= 0)) return std::nullopt;
    v.epsilon = sum->second;
    v.mean = r_.OnlyFor(sum->first, v.add, "ReduceMean");
    const auto axis = v.mean == kNoNode ? std::nullopt : MeanAxis(v.mean);
    if (!axis) return std::nullopt;
    v.axis = *axis;
    const ValueId squared = r_.node(v.mean).inputs[0];
    if (v.square = r_.OnlyFor(squared, v.mean, "Pow"); v.square != kNoNode) {
      if (!IsScalar(r_.node(v.square).inputs[1], 2)) return std::nullopt;
    } else {
      v.square = r_.OnlyFor(squared, v.mean, "Mul");
      if (v.square == kNoNode || r_.node(v.square).inputs[0] != r_.node(v.square).inputs[1]) {
        return std::nullopt;
      }
    }
    v.d = r_.node(v.square).inputs[0];
    return v;
  }

  // d over or times a root for node i only: the root's nodes, outermost first.
  std::vector<NodeId> RootsOf(NodeId i, ValueId v, bool inverse) const {
    NodeId n = r_.OnlyFor(v, i, "Pow");
    if (n != kNoNode && IsScalar(r_.node(n).inputs[1], inverse ? -0.5f : 0.5f)) return {n};
    if (!inverse) {
      n = r_.OnlyFor(v, i, "Sqrt");
      return n == kNoNode ? std::vector<NodeId>() : std::vector{n};
    }
    const NodeId reciprocal = r_.OnlyFor(v, i, "Reciprocal");
    if (reciprocal == kNoNode) return {};
    n = r_.OnlyFor(r_.node(reciprocal).inputs[0], reciprocal, "Sqrt");
    return n == kNoNode ? std::vector<NodeId>() : std::vector{reciprocal, n};
  }

  bool Normalize(NodeId i) {
    const Node* n = r_.Match(i, "Div");
    const bool inverse = n == nullptr;
    if (inverse) n = r_.Match(i, "Mul");
    if (n == nullptr || r_.value(n->outputs[0]).type.dtype != DType::kF32) return false;
    for (size_t k : {1, 0}) {
      if (!inverse && k == 0) break;
      std::vector<NodeId> dropped = RootsOf(i, n->inputs[k], inverse);
      const auto v = dropped.empty() ? std::nullopt : DeviationOf(dropped.back());
      if (!v || v->d != n->inputs[1 - k]) continue;
      const NodeId sub = r_.Producer(v->d);
      if (sub == kNoNode || r_.Match(sub, "Sub") == nullptr || !r_.ReadOnlyBy(v->d, {i, v->square}))
        continue;
      const ValueId x = r_.node(sub).inputs[0];
      const NodeId mean = r_.OnlyFor(r_.node(sub).inputs[1], sub, "ReduceMean");
      const std::optional<Shape> shape = r_.ShapeOf(x);
      if (mean == kNoNode || r_.node(mean).inputs[0] != x || MeanAxis(mean) != v->axis || !shape)
        continue;
      dropped.insert(dropped.end(), {v->add, v->mean, v->square, sub, mean});
      return Put(i, x, *shape, *v, dropped);
    }
    return false;
  }

  bool Put(NodeId i, ValueId x, const Shape& shape, const Deviation& v,
           const std::vector<NodeId>& dropped) {
    Shape trailing;
    for (int d = v.axis; d < shape.rank(); ++d) trailing.Append(shape[d]);
    Result<Tensor> ones = Tensor::Allocate(DType::kF32, trailing);
    if (!ones.ok()) return false;
    std::fill_n(ones->mutable_data<float>(), ones->elements(), 1.0f);
    Node named;
    named.name = r_.node(i).name;
    named.op = "LayerNormalization";
    named.opset = 17;
    named.outputs = r_.node(i).outputs;
    named.inputs = {x, r_.AddConstant(named.name + "_scale", std::move(*ones))};
    named.explicit_inputs = 2;
    named.attributes.Set("axis", int64_t{v.axis - shape.rank()});
    named.attributes.Set("epsilon", v.epsilon);
    unscaled_.insert(named.outputs[0]);
    r_.Replace(i, std::move(named), dropped);
    return true;
  }

  // A value with the extents of the normalised axes of `norm`.
  bool IsParameter(ValueId v, const Node& norm) const {
    const std::optional<Shape> shape = r_.ShapeOf(v), scale = r_.ShapeOf(norm.inputs[1]);
    if (!shape || !scale || r_.value(v).type.dtype != DType::kF32) return false;
    const int leading = shape->rank() - scale->rank();
    if (leading < 0 || shape->rank() > r_.value(norm.inputs[0]).type.rank()) return false;
    for (int d = 0; d < shape->rank(); ++d) {
      if ((*shape)[d] != (d < leading ? 1 : (*scale)[d - leading])) return false;
    }
    return true;
  }
  // Node i, an `op` of a normalisation made here, of `from`, and a parameter.
  bool TakeIn(NodeId i, std::string_view op, std::set<ValueId>& from, size_t input,
              std::set<ValueId>* to) {
    const Node* n = r_.Match(i, op);
    if (n == nullptr) return false;
    for (size_t k : {0, 1}) {
      const ValueId normal = n->inputs[k], parameter = n->inputs[1 - k];
      if (from.count(normal) == 0) continue;
      const NodeId norm = r_.OnlyFor(normal, i, "LayerNormalization");
      if (norm == kNoNode || !IsParameter(parameter, r_.node(norm))) continue;
      const Node& old = r_.node(norm);
      Node named;
      named.name = old.name;
      named.op = old.op;
      named.opset = old.opset;
      named.inputs = old.inputs;
      named.inputs.resize(std::max(named.inputs.size(), input + 1), kNoValue);
      named.inputs[input] = parameter;
      named.explicit_inputs = static_cast<int>(named.inputs.size());
      named.attributes = old.attributes;
      named.outputs = n->outputs;
      if (to != nullptr) to->insert(named.outputs[0]);
      r_.Replace(i, std::move(named), {norm});
      return true;
    }
    return false;
  }
  bool Scale(NodeId i) { return TakeIn(i, "Mul", unscaled_, 1, &scaled_); }
  void Bias(NodeId i) {
    if (!TakeIn(i, "Add", scaled_, 2, nullptr)) TakeIn(i, "Add", unscaled_, 2, nullptr);
  }

  Rewriter r_;
  // Outputs of normalisations made here that can still take in a scale, or a bias.
  std::set<ValueId> unscaled_, scaled_;
};

}  // namespace

void NameLayerNorm(Graph* graph) { LayerNormNamer(graph).Run(); }

}  // namespace parallax::passes
