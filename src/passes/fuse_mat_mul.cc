// Makes a MatMul or Gemm and what stands around it one parallax::FusedMatMul:
//
//   operand times or over a scalar -> product,
//   product -> times or over a scalar -> Add of a value per column -> times or over a scalar,
//   then -> activation -> Add of a tensor of the same shape,
//   or   -> Add of a tensor of the same shape -> activation,
//
// each part but the product optional. A product with nothing to take in stays what it is.
//
// Contract: f32, static shapes; every inner value is read by the next part only. A scalar becomes
// alpha, so that sums are scaled instead of operands: results differ by rounding (by nothing for
// powers of two). Scalars so far from 1 that a sum could overflow instead are left. Everything else
// keeps the same bits but for activations, which are evaluated by the same functions.
#include <cmath>
#include <cstring>

#include "ops/core/epilogue_op.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

constexpr std::string_view kFused = "FusedMatMul";
constexpr size_t kBias = 2, kResidual = 3;

class MatMulFuser {
 public:
  explicit MatMulFuser(Graph* graph) : r_(graph) {}

  void Run() {
    for (NodeId i = 0; i < r_.size(); ++i) {
      // A part moves the fused node to its own place, where the next part finds it.
      if (ScaledOperands(i)) continue;
      if (!Scale(i) && !Bias(i) && !Residual(i)) Activation(i);
    }
  }

 private:
  // The node as a FusedMatMul, if it is a product that can be one.
  std::optional<Node> Fused(NodeId i) const {
    if (const Node* n = r_.Match(i, kFused, kOwnDomain)) {
      Node same = MakeFused(std::string(kFused), *n, n->inputs, n->outputs);
      same.attributes = n->attributes;
      return same;
    }
    const Node* mat_mul = r_.Match(i, "MatMul");
    const Node* gemm = r_.Match(i, "Gemm");
    const Node* n = mat_mul != nullptr ? mat_mul : gemm;
    if (n == nullptr || r_.value(n->outputs[0]).type.dtype != DType::kF32) return std::nullopt;
    const std::optional<Shape> a = r_.ShapeOf(n->inputs[0]), b = r_.ShapeOf(n->inputs[1]);
    const std::optional<Shape> out = r_.ShapeOf(n->outputs[0]);
    if (!a || !b || !out || a->rank() < 2 || b->rank() < 2) return std::nullopt;
    Node fused = MakeFused(std::string(kFused), *n, {n->inputs[0], n->inputs[1]}, n->outputs);
    if (gemm == nullptr) return fused;
    for (const Attributes::Entry& e : gemm->attributes.entries()) {
      if (e.name != "beta") fused.attributes.Set(e.name, e.value);  // of C alone
    }
    if (gemm->inputs.size() <= 2 || gemm->inputs[2] == kNoValue) return fused;
    const ValueId c = gemm->inputs[2];
    if (gemm->attributes.Float("beta", 1.0f) != 1.0f) return std::nullopt;
    const bool column = IsPerColumn(c, *out);
    if (!column && r_.ShapeOf(c) != out) return std::nullopt;
    SetInput(&fused, column ? kBias : kResidual, c);
    return fused;
  }

  // The product that makes `v` for `reader` only.
  NodeId Before(ValueId v, NodeId reader) const {
    const NodeId i = r_.Producer(v);
    if (i == kNoNode) return kNoNode;
    const Node& n = r_.node(i);
    return r_.OnlyFor(v, reader, n.op, n.domain);
  }
  static bool Has(const Node& n, size_t input) {
    return n.inputs.size() > input && n.inputs[input] != kNoValue;
  }
  static bool Activated(const Node& n) { return n.attributes.Has("activation"); }
  static void SetInput(Node* n, size_t input, ValueId v) {
    if (n->inputs.size() <= input) n->inputs.resize(input + 1, kNoValue);
    n->inputs[input] = v;
    n->explicit_inputs = static_cast<int>(n->inputs.size());
  }
  static void MultiplyAlpha(Node* n, float by) {
    n->attributes.Set("alpha", n->attributes.Float("alpha", 1.0f) * by);
  }
  // One value for each of the last axis of `out`, the same along every other.
  bool IsPerColumn(ValueId v, const Shape& out) const {
    const std::optional<Shape> shape = r_.ShapeOf(v);
    const int64_t columns = out[out.rank() - 1];
    return shape && shape->rank() >= 1 && shape->rank() <= out.rank() &&
           shape->elements() == columns && (*shape)[shape->rank() - 1] == columns;
  }

  void Put(NodeId at, Node fused, std::initializer_list<NodeId> dropped) {
    fused.outputs = r_.node(at).outputs;
    r_.Replace(at, std::move(fused), dropped);
  }

  // Node i as x * factor where one operand is a constant scalar.
  struct Scaled {
    ValueId x = kNoValue;
    float factor = 1;
  };
  std::optional<Scaled> ScaledBy(NodeId i) const {
    const Node* mul = r_.Match(i, "Mul");
    const Node* n = mul != nullptr ? mul : r_.Match(i, "Div");
    if (n == nullptr) return std::nullopt;
    for (size_t k : {1, 0}) {
      const std::optional<float> s = r_.Scalar(n->inputs[k]);
      if (!s || (k == 0 && mul == nullptr)) continue;
      const ValueId x = n->inputs[1 - k];
      if (!r_.ShapeOf(x) || r_.ShapeOf(x) != r_.ShapeOf(n->outputs[0])) return std::nullopt;
      const float factor = mul != nullptr ? *s : 1.0f / *s;
      constexpr float kFar = 1 << 20;
      const float size = std::abs(factor);
      if (!(size <= kFar && size >= 1 / kFar)) return std::nullopt;
      return Scaled{x, factor};
    }
    return std::nullopt;
  }

  bool ScaledOperands(NodeId i) {
    bool any = false;
    for (size_t k : {0, 1}) {
      std::optional<Node> fused = Fused(i);
      if (!fused || fused->inputs[0] == fused->inputs[1]) break;
      const NodeId scale = Before(fused->inputs[k], i);
      const auto s = scale == kNoNode ? std::nullopt : ScaledBy(scale);
      if (!s) continue;
      fused->inputs[k] = s->x;
      MultiplyAlpha(&*fused, s->factor);
      Put(i, std::move(*fused), {scale});
      any = true;
    }
    return any;
  }

  bool Scale(NodeId i) {
    const auto s = ScaledBy(i);
    const NodeId product = s ? Before(s->x, i) : kNoNode;
    std::optional<Node> fused = product == kNoNode ? std::nullopt : Fused(product);
    if (!fused || Has(*fused, kResidual) || Activated(*fused)) return false;
    if (Has(*fused, kBias)) {
      const ValueId scaled = ScaledConstant(fused->inputs[kBias], s->factor);
      if (scaled == kNoValue) return false;
      fused->inputs[kBias] = scaled;
    }
    MultiplyAlpha(&*fused, s->factor);
    Put(i, std::move(*fused), {product});
    return true;
  }
  // A new constant `factor` times v, or kNoValue.
  ValueId ScaledConstant(ValueId v, float factor) {
    const Tensor* from = r_.FloatConstant(v);
    if (from == nullptr) return kNoValue;
    Result<Tensor> to = Tensor::Allocate(DType::kF32, from->shape());
    if (!to.ok()) return kNoValue;
    for (int64_t k = 0; k < from->elements(); ++k) {
      float x = 0;
      std::memcpy(&x, from->bytes_begin() + k * static_cast<int64_t>(sizeof x), sizeof x);
      to->mutable_data<float>()[k] = x * factor;
    }
    return r_.AddConstant(r_.value(v).name + "_scaled", std::move(*to));
  }

  bool Bias(NodeId i) {
    const Node* add = r_.Match(i, "Add");
    if (add == nullptr) return false;
    for (size_t k : {0, 1}) {
      const NodeId product = Before(add->inputs[k], i);
      const ValueId other = add->inputs[1 - k];
      std::optional<Node> fused = product == kNoNode ? std::nullopt : Fused(product);
      if (!fused || Has(*fused, kBias) || Has(*fused, kResidual) || Activated(*fused)) continue;
      if (!IsPerColumn(other, *r_.ShapeOf(add->inputs[k]))) continue;
      SetInput(&*fused, kBias, other);
      Put(i, std::move(*fused), {product});
      return true;
    }
    return false;
  }

  bool Residual(NodeId i) {
    const Node* add = r_.Match(i, "Add");
    if (add == nullptr) return false;
    const std::optional<Shape> shape = r_.ShapeOf(add->outputs[0]);
    for (size_t k : {0, 1}) {
      const NodeId product = Before(add->inputs[k], i);
      const ValueId other = add->inputs[1 - k];
      std::optional<Node> fused = product == kNoNode ? std::nullopt : Fused(product);
      if (!fused || Has(*fused, kResidual) || !shape || r_.ShapeOf(other) != shape ||
          r_.ShapeOf(add->inputs[k]) != shape) {
        continue;
      }
      SetInput(&*fused, kResidual, other);
      if (Activated(*fused)) fused->attributes.Set("residual_last", int64_t{1});
      Put(i, std::move(*fused), {product});
      return true;
    }
    return false;
  }

  void Activation(NodeId i) {
    if (r_.node(i).inputs.empty() || r_.node(i).inputs[0] == kNoValue) return;
    const std::optional<ops::FusedActivation> activation =
        ops::ActivationOf(r_.graph(), r_.node(i));
    const NodeId product = activation ? Before(r_.node(i).inputs[0], i) : kNoNode;
    std::optional<Node> fused = product == kNoNode ? std::nullopt : Fused(product);
    if (!fused || Activated(*fused)) return;
    ops::SetActivation(&*fused, *activation);
    Put(i, std::move(*fused), {product});
  }

  Rewriter r_;
};

}  // namespace

void FuseMatMul(Graph* graph) { MatMulFuser(graph).Run(); }

}  // namespace parallax::passes
