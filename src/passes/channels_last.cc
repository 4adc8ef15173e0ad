// Moves convolutional regions to channels last, [batch, spatial..., channels]: what the fast
// convolutions work on. A region starts at its convolutions, grows over operators that do not care
// where channels stand, and has Transposes at its borders only.
//
// Contract: static shapes. Results stay the same but for the order of sums inside convolutions.
#include <algorithm>
#include <numeric>
#include <set>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

const std::set<std::string_view> kElementwise = {
    "Abs",     "Add",      "Cast", "Ceil",        "Clip",      "Div",        "Elu",  "Erf",
    "Exp",     "Floor",    "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",  "Log",  "Max",
    "Min",     "Mish",     "Mul",  "Neg",         "Pow",       "Reciprocal", "Relu", "Round",
    "Sigmoid", "Softplus", "Sqrt", "Sub",         "Swish",     "Tanh"};

// The permutation from channels first to last, or back.
std::vector<int64_t> Permutation(int rank, bool to_last) {
  std::vector<int64_t> p(static_cast<size_t>(rank));
  std::iota(p.begin(), p.end(), 0);
  if (rank < 3) return p;
  if (to_last) {
    std::rotate(p.begin() + 1, p.begin() + 2, p.end());
  } else {
    std::rotate(p.begin() + 1, p.end() - 1, p.end());
  }
  return p;
}

template <class T>
std::vector<T> Permuted(const std::vector<T>& from, const std::vector<int64_t>& p) {
  std::vector<T> to;
  for (int64_t i : p) to.push_back(from[static_cast<size_t>(i)]);
  return to;
}

class LayoutPass {
 public:
  explicit LayoutPass(Graph* graph) : graph_(*graph) {}

  Result<void> Run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    made_.assign(graph_.values.size(), true);
    last_.assign(graph_.values.size(), kNoValue);
    for (Node& n : nodes) {
      if (!Convert(n)) Push(std::move(n));
    }
    for (ValueId v : graph_.outputs) First(v);
    Compact(&graph_, std::vector<bool>(graph_.nodes.size(), false));
    return std::move(result_);
  }

 private:
  int RankOf(ValueId v) const { return graph_.value(v).type.rank(); }
  std::optional<Shape> ShapeOf(ValueId v) const { return graph_.value(v).type.shape(); }
  bool HasLast(ValueId v) const { return last_[static_cast<size_t>(v)] != kNoValue; }

  ValueId Add(Value value) {
    last_.push_back(kNoValue);
    made_.push_back(true);
    return graph_.AddValue(std::move(value));
  }
  ValueId AddConstant(std::string name, Tensor tensor) {
    Value value;
    value.name = std::move(name);
    value.type = TensorType::Of(tensor.dtype(), tensor.shape());
    value.origin = ValueOrigin::kConstant;
    value.constant = std::move(tensor);
    return Add(std::move(value));
  }
  // What the node reads exists before it.
  void Push(Node n) {
    for (ValueId v : n.inputs) {
      if (v != kNoValue) First(v);
    }
    const auto id = static_cast<NodeId>(graph_.nodes.size());
    for (ValueId v : n.outputs) {
      if (v != kNoValue) graph_.value(v).producer = id;
    }
    graph_.nodes.push_back(std::move(n));
  }
  // Whether channels first and last are the same bytes.
  static bool SameBytes(const Shape& first) {
    return first.rank() < 3 || first[1] == 1 || first.Elements(2, first.rank()) == 1;
  }
  // A node that makes `to`, which has the bytes of `from` moved by `p`, where they do move.
  void PushMove(ValueId from, ValueId to, const std::vector<int64_t>& p, bool same_bytes) {
    Node n;
    n.name = graph_.value(to).name;
    n.outputs = {to};
    n.inputs = {from};
    n.op = same_bytes ? "Reshape" : "Transpose";
    n.opset = 13;
    if (same_bytes) {
      const Shape shape = *ShapeOf(to);
      std::vector<int64_t> extents(shape.dims().begin(), shape.dims().end());
      n.inputs.push_back(AddInts(n.name + " shape", extents));
      n.opset = 14;
      n.attributes.Set("allowzero", int64_t{1});
    } else {
      n.attributes.Set("perm", p);
    }
    n.explicit_inputs = static_cast<int>(n.inputs.size());
    Push(std::move(n));
  }
  ValueId AddInts(std::string name, const std::vector<int64_t>& values) {
    Result<Tensor> t = Tensor::From<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
    if (!t.ok()) {
      if (result_.ok()) result_ = t.error();
      return kNoValue;
    }
    return AddConstant(std::move(name), std::move(*t));
  }

  // The value with channels first, made from its other form where nothing made it yet.
  ValueId First(ValueId v) {
    if (made_[static_cast<size_t>(v)]) return v;
    made_[static_cast<size_t>(v)] = true;
    PushMove(last_[static_cast<size_t>(v)], v, Permutation(RankOf(v), /*to_last=*/false),
             SameBytes(*ShapeOf(v)));
    return v;
  }
  // And with channels last.
  ValueId Last(ValueId v) {
    if (HasLast(v)) return last_[static_cast<size_t>(v)];
    const ValueId twin = Twin(v);
    PushMove(First(v), twin, Permutation(RankOf(v), /*to_last=*/true), SameBytes(*ShapeOf(v)));
    return twin;
  }
  // A value for `v` with channels last, which the caller makes.
  ValueId Twin(ValueId v) {
    TensorType type = graph_.value(v).type;
    type.dims = Permuted(type.dims, Permutation(type.rank(), /*to_last=*/true));
    Value value;
    value.name = graph_.value(v).name + " (channels last)";
    value.type = std::move(type);
    const ValueId twin = Add(std::move(value));
    last_[static_cast<size_t>(v)] = twin;
    return twin;
  }
  // The node's outputs, now with channels last; what reads them first later asks First.
  void Turn(Node* n) {
    for (ValueId& v : n->outputs) {
      if (v == kNoValue) continue;
      made_[static_cast<size_t>(v)] = false;
      v = Twin(v);
    }
  }

  bool Convert(Node& n) {
    if (!n.subgraphs.empty() || n.outputs.empty() || n.outputs[0] == kNoValue) return false;
    for (ValueId v : n.outputs) {
      if (v == kNoValue || !ShapeOf(v)) return false;
    }
    if (n.domain == kOwnDomain && n.op == "FusedConv") return Conv(n);
    if (!n.domain.empty()) return false;
    if (kElementwise.count(n.op) > 0) return Elementwise(n);
    if (n.op == "Concat" || n.op == "Split") return AlongAxis(n);
    if (n.op == "Resize") return Resize(n);
    if (n.op == "GlobalAveragePool") return GlobalAverage(n);
    if (n.op == "MaxPool" || n.op == "AveragePool") return Pool(n);
    if (n.op == "Transpose") return Transpose(n);
    return false;
  }

  bool Conv(Node& n) {
    if (n.attributes.Int("channels_last", 0) != 0 || !ShapeOf(n.inputs[0])) return false;
    const Shape x = *ShapeOf(n.inputs[0]);
    const std::optional<Shape> w = ShapeOf(n.inputs[1]);
    const int64_t groups = n.attributes.Int("group", 1);
    if (!w || x.rank() < 3 || x.rank() > 4 || x[1] == 0) return false;
    // The same conditions as SupportsChannelsLast, which sees more.
    const bool depthwise = x[1] == groups && (*w)[0] == groups;
    const bool wide = (*w)[1] >= 4 && (*w)[0] / groups >= 4;
    if (groups != 1 && !depthwise && !wide) return false;
    if (w->Elements(2, w->rank()) > 1024) return false;
    // An image's few planes are gathered anyway, and moving them would cost more than that.
    if (!HasLast(n.inputs[0]) && x[1] <= 4 && groups == 1) {
      n.attributes.Set("planar_input", int64_t{1});
    } else {
      n.inputs[0] = Last(n.inputs[0]);
    }
    if (n.inputs.size() > 3 && n.inputs[3] != kNoValue) n.inputs[3] = Last(n.inputs[3]);
    n.attributes.Set("channels_last", int64_t{1});
    Turn(&n);
    Push(std::move(n));
    return true;
  }

  // An operand of an elementwise node whose result has `out`'s rank, as channels last wants it.
  enum class Operand { kNo, kAsIs, kTwin, kMove };
  Operand OperandOf(ValueId v, int out_rank) const {
    if (v == kNoValue) return Operand::kAsIs;
    const std::optional<Shape> s = ShapeOf(v);
    if (!s) return Operand::kNo;
    if (s->elements() == 1 && s->rank() <= out_rank) return Operand::kAsIs;
    if (s->rank() == out_rank) return HasLast(v) ? Operand::kTwin : Operand::kMove;
    return Operand::kNo;
  }

  bool Elementwise(Node& n) {
    const int rank = RankOf(n.outputs[0]);
    if (rank < 3 || rank > 4) return false;
    bool twins = false;
    for (ValueId v : n.inputs) {
      const Operand o = OperandOf(v, rank);
      if (o == Operand::kNo) return false;
      twins |= o == Operand::kTwin;
      // Moving a whole operand would cost what is won.
      if (o == Operand::kMove && ShapeOf(v)->elements() > ShapeOf(v)->dims()[1] &&
          graph_.value(v).origin != ValueOrigin::kConstant) {
        return false;
      }
    }
    if (!twins) return false;
    for (ValueId& v : n.inputs) {
      const Operand o = OperandOf(v, rank);
      if (o == Operand::kTwin || o == Operand::kMove) v = Last(v);
    }
    Turn(&n);
    Push(std::move(n));
    return true;
  }

  static int64_t LastAxis(int64_t axis, int rank) {
    if (axis < 0) axis += rank;
    if (axis == 0) return 0;
    return axis == 1 ? rank - 1 : axis - 1;
  }

  bool AlongAxis(Node& n) {
    const int rank = RankOf(n.outputs[0]);
    if (rank < 3 || rank > 4) return false;
    const size_t data = n.op == "Split" ? 1 : n.inputs.size();
    for (size_t i = 0; i < data; ++i) {
      if (!HasLast(n.inputs[i])) return false;
    }
    if (n.op == "Split" && n.inputs.size() > 1 && n.inputs[1] != kNoValue &&
        graph_.value(n.inputs[1]).origin != ValueOrigin::kConstant) {
      return false;
    }
    for (size_t i = 0; i < data; ++i) n.inputs[i] = Last(n.inputs[i]);
    n.attributes.Set("axis", LastAxis(n.attributes.Int("axis", 0), rank));
    Turn(&n);
    Push(std::move(n));
    return true;
  }

  // A vector with one entry an axis, permuted.
  std::optional<ValueId> PermutedVector(ValueId v, int rank) {
    const Value& value = graph_.value(v);
    if (value.origin != ValueOrigin::kConstant || value.constant.shape().rank() != 1) {
      return std::nullopt;
    }
    const Tensor& from = value.constant;
    if (from.elements() == 0) return v;
    if (from.elements() != rank) return std::nullopt;
    Result<Tensor> to = Tensor::Allocate(from.dtype(), from.shape());
    if (!to.ok()) return std::nullopt;
    const std::vector<int64_t> p = Permutation(rank, /*to_last=*/true);
    const size_t size = SizeOf(from.dtype());
    for (size_t i = 0; i < p.size(); ++i) {
      std::copy_n(from.bytes_begin() + static_cast<size_t>(p[i]) * size, size,
                  to->mutable_bytes() + i * size);
    }
    return AddConstant(value.name, std::move(*to));
  }

  bool Resize(Node& n) {
    const int rank = RankOf(n.outputs[0]);
    if (rank < 3 || rank > 4 || !HasLast(n.inputs[0]) || n.attributes.Has("axes")) return false;
    // scales and sizes; a roi is read in one coordinate mode only.
    if (n.attributes.String("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
      return false;
    }
    std::vector<ValueId> inputs = n.inputs;
    for (size_t i = n.opset < 11 ? 1 : 2; i < inputs.size(); ++i) {
      if (inputs[i] == kNoValue) continue;
      const std::optional<ValueId> v = PermutedVector(inputs[i], rank);
      if (!v) return false;
      inputs[i] = *v;
    }
    inputs[0] = Last(inputs[0]);
    n.inputs = std::move(inputs);
    Turn(&n);
    Push(std::move(n));
    return true;
  }

  bool GlobalAverage(Node& n) {
    const int rank = RankOf(n.outputs[0]);
    if (rank < 3 || rank > 4 || !HasLast(n.inputs[0])) return false;
    n.op = "ReduceMean";
    n.opset = 13;
    n.attributes = {};
    std::vector<int64_t> axes(static_cast<size_t>(rank - 2));
    std::iota(axes.begin(), axes.end(), 1);
    n.attributes.Set("axes", axes);
    n.inputs[0] = Last(n.inputs[0]);
    Turn(&n);
    Push(std::move(n));
    return true;
  }

  bool Pool(Node& n) {
    const int rank = RankOf(n.outputs[0]);
    if (rank < 3 || rank > 4 || n.outputs.size() > 1 || !HasLast(n.inputs[0]) ||
        graph_.value(n.outputs[0]).type.dtype != DType::kF32) {
      return false;
    }
    Node pool = MakeFused("PoolLast", n, {Last(n.inputs[0])}, n.outputs);
    pool.attributes = std::move(n.attributes);
    pool.attributes.Set("kind", std::string(n.op == "MaxPool" ? "max" : "average"));
    Turn(&pool);
    Push(std::move(pool));
    return true;
  }

  // Of a value with channels last: one Transpose of that, or none.
  bool Transpose(Node& n) {
    if (!HasLast(n.inputs[0]) || made_[static_cast<size_t>(n.inputs[0])]) return false;
    const int rank = RankOf(n.inputs[0]);
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    if (const std::vector<int64_t>* given = n.attributes.Ints("perm")) {
      perm = *given;
    } else {
      for (int i = 0; i < rank; ++i) perm[static_cast<size_t>(i)] = rank - 1 - i;
    }
    // Output axis i is axis perm[i] with channels first, which is axis LastAxis(perm[i]) now.
    for (int64_t& axis : perm) axis = LastAxis(axis, rank);
    n.inputs[0] = Last(n.inputs[0]);
    if (std::is_sorted(perm.begin(), perm.end())) {
      n.op = "Identity";
      n.attributes = {};
    } else {
      n.attributes.Set("perm", perm);
    }
    Push(std::move(n));
    return true;
  }

  Graph& graph_;
  std::vector<ValueId> last_;  // by value: the same with channels last
  std::vector<bool> made_;     // whether the value itself exists
  Result<void> result_;        // the first constant that could not be made
};

}  // namespace

Result<void> UseChannelsLast(Graph* graph) { return LayoutPass(graph).Run(); }

}  // namespace parallax::passes
