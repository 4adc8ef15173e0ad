// Makes attention that exporters spell out one parallax::FusedAttention:
//
//   MatMul(Softmax(MatMul(Q, K^T) * scale + masks), V)
//
// with what surrounds it: products and quotients by one number, of the scores, of Q or of K; one
// factor a head; up to two masks, added in any shape that broadcasts, or where Swin cuts the batch
// in windows for one, or chosen by Where(mask, scores, -infinity or a number below -1e30), which
// becomes Where(mask, 0, that number), added; Where(IsNaN(weights), 0, weights); the division of Q and K by their norms;
// and what only moves heads, before and after: Transpose, and Q, K and V as parts of one tensor by
// Split, Slice or Gather. Those become layouts of the operands (ops/core/attention_layout.h).
//
// Contract: f32 and shapes that are known; the scores and weights are read by the pattern only, so
// no output of the graph is lost. Operands are read before what moved them, which is dropped where
// nobody else reads it. Results differ by rounding; rows without a finite score stay NaN, and a
// value of +-infinity or NaN in V next to a weight below e^-87 no longer makes its column NaN.
#include <algorithm>
#include <cmath>

#include "ops/core/attention_layout.h"
#include "passes/attention_operand.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

constexpr std::string_view kFused = "FusedAttention";

// Letters of a MatMul's operands and result.
std::string LettersOf(int rank, std::string_view matrix) {
  std::string letters(static_cast<size_t>(rank > 3 ? rank - 3 : rank - 2), 'b');
  if (rank > 3) letters.push_back('h');
  return letters.append(matrix);
}

// Whether one shape of scores is the other with its batch axes cut or joined.
bool SameMatrices(const Shape& a, const Shape& b) {
  return a.rank() >= 2 && b.rank() >= 2 && a.elements() == b.elements() &&
         a[a.rank() - 1] == b[b.rank() - 1] && a[a.rank() - 2] == b[b.rank() - 2];
}

// The scores between MatMul and Softmax.
struct Scores {
  NodeId product = kNoNode;
  Shape shape;
  double scale = 1;
  ValueId scales = kNoValue;  // a constant, one factor a head
  // What is added, and the shape that the scores have there.
  struct Mask {
    ValueId value = kNoValue;
    Shape scores;
    // Not kNoNode: a Where whose input `kept` the scores are; the other replaces what is masked.
    NodeId where = kNoNode;
    size_t kept = 0;
  };
  std::vector<Mask> masks;
  bool nan_rows_to_zero = false;
};

class AttentionFuser {
 public:
  explicit AttentionFuser(Graph* graph) : r_(graph) {}

  // Whether anything fired.
  bool Run() {
    bool fired = false;
    for (NodeId i = 0; i < r_.size(); ++i) {
      fired |= Attend(i);
      MoveHeads(i);
    }
    return fired;
  }

 private:
  // Through conversions to the type a value has already.
  void SkipCasts(ValueId& v, NodeId& reader) const {
    for (NodeId cast = r_.OnlyFor(v, reader, "Cast"); cast != kNoNode;
         cast = r_.OnlyFor(v, reader, "Cast")) {
      const ValueId from = r_.node(cast).inputs[0];
      if (r_.value(from).type.dtype != r_.value(v).type.dtype) return;
      v = from;
      reader = cast;
    }
  }

  // The softmax over the last axis whose weights `v` are, read by `reader` alone.
  NodeId SoftmaxOf(ValueId v, NodeId reader, Scores& s) const {
    SkipCasts(v, reader);
    NodeId softmax = r_.OnlyFor(v, reader, "Softmax");
    if (softmax == kNoNode) {  // Where(IsNaN(weights), 0, weights)
      const NodeId where = r_.OnlyFor(v, reader, "Where");
      if (where == kNoNode) return kNoNode;
      const Node& w = r_.node(where);
      const ValueId weights = w.inputs[2];
      const NodeId test = r_.OnlyFor(w.inputs[0], where, "IsNaN");
      softmax = r_.Producer(weights);
      if (test == kNoNode || r_.node(test).inputs[0] != weights || r_.Scalar(w.inputs[1]) != 0.0f ||
          softmax == kNoNode || r_.Match(softmax, "Softmax") == nullptr ||
          !r_.ReadOnlyBy(weights, {test, where}) || r_.ShapeOf(v) != r_.ShapeOf(weights)) {
        return kNoNode;
      }
      s.nan_rows_to_zero = true;
    }
    const Node& n = r_.node(softmax);
    const std::optional<Shape> shape = r_.ShapeOf(n.inputs[0]);
    if (!shape || r_.value(n.inputs[0]).type.dtype != DType::kF32) return kNoNode;
    const int64_t axis = n.attributes.Int("axis", n.opset >= 13 ? -1 : 1);
    if (axis != -1 && axis != shape->rank() - 1) return kNoNode;
    s.shape = *shape;
    return softmax;
  }

  // The term of Add `i` that is not the scores: what broadcasts, or what no product made.
  bool AddMask(NodeId i, Scores& s, ValueId& v) const {
    const Node& add = r_.node(i);
    const std::optional<Shape> shape = r_.ShapeOf(v);
    for (size_t k : {0, 1}) {
      const NodeId p = r_.Producer(add.inputs[k]);
      if (p == kNoNode || r_.ShapeOf(add.inputs[k]) != shape) continue;
      if (r_.OnlyFor(add.inputs[k], i, r_.node(p).op) == kNoNode ||
          !LeadsToProduct(add.inputs[k], i)) {
        continue;
      }
      if (!r_.ShapeOf(add.inputs[1 - k])) return false;
      s.masks.push_back({.value = add.inputs[1 - k], .scores = *shape});
      v = add.inputs[k];
      return s.masks.size() <= 2;
    }
    return false;
  }
  // Scores where a condition says so, and a number that hides them elsewhere.
  bool ChosenByWhere(NodeId i, Scores& s, ValueId& v) const {
    const Node& where = r_.node(i);
    const std::optional<Shape> shape = r_.ShapeOf(v), condition = r_.ShapeOf(where.inputs[0]);
    for (size_t kept : {1, 2}) {
      const std::optional<float> other = r_.Scalar(where.inputs[3 - kept]);
      if (!other || *other > -1e30f || r_.ShapeOf(where.inputs[kept]) != shape || !condition ||
          condition->rank() > shape->rank() ||
          r_.ShapeOf(where.inputs[3 - kept])->rank() > condition->rank()) {
        continue;
      }
      s.masks.push_back({.value = kNoValue, .scores = *shape, .where = i, .kept = kept});
      v = where.inputs[kept];
      return s.masks.size() <= 2;
    }
    return false;
  }

  // Whether scores come this way: through what ScoresOf follows to a MatMul.
  bool LeadsToProduct(ValueId v, NodeId reader) const {
    Scores unused;
    return ScoresOf(v, reader, unused);
  }

  // A factor of the scores: one number, or one a head.
  bool TakeScale(NodeId i, Scores& s, ValueId& v) const {
    if (const std::optional<ScaledValue> scaled = ScaledBy(r_, i)) {
      s.scale *= scaled->factor;
      v = scaled->value;
      return true;
    }
    const Node* mul = r_.Match(i, "Mul");
    const std::optional<Shape> shape = r_.ShapeOf(v);
    if (mul == nullptr || s.scales != kNoValue || shape->rank() < 4) return false;
    for (size_t k : {0, 1}) {
      const Tensor* factors = r_.FloatConstant(mul->inputs[k]);
      const int64_t heads = (*shape)[shape->rank() - 3];
      if (factors == nullptr || factors->elements() != heads || factors->shape().rank() < 3 ||
          factors->shape()[factors->shape().rank() - 3] != heads ||
          r_.ShapeOf(mul->inputs[1 - k]) != shape) {
        continue;
      }
      s.scales = mul->inputs[k];
      v = mul->inputs[1 - k];
      return true;
    }
    return false;
  }

  // From Softmax's input back to MatMul. Masks are met before scales, which they do not pass.
  bool ScoresOf(ValueId v, NodeId reader, Scores& s) const {
    bool scaled = false;
    for (;;) {
      SkipCasts(v, reader);
      if (!r_.ShapeOf(v)) return false;
      s.product = r_.OnlyFor(v, reader, "MatMul");
      if (s.product != kNoNode) return true;
      NodeId next = r_.OnlyFor(v, reader, "Reshape");
      if (next != kNoNode) {
        const ValueId from = r_.node(next).inputs[0];
        if (!r_.ShapeOf(from) || !SameMatrices(*r_.ShapeOf(from), *r_.ShapeOf(v))) return false;
        v = from;
      } else if (next = r_.OnlyFor(v, reader, "Add"); next != kNoNode) {
        if (scaled || !AddMask(next, s, v)) return false;
      } else if (next = r_.OnlyFor(v, reader, "Where"); next != kNoNode) {
        if (scaled || !ChosenByWhere(next, s, v)) return false;
      } else {
        next = r_.OnlyFor(v, reader, "Mul");
        if (next == kNoNode) next = r_.OnlyFor(v, reader, "Div");
        if (next == kNoNode || !TakeScale(next, s, v)) return false;
        scaled = true;
      }
      reader = next;
    }
  }

  // Whether the mask can be added to scores of shape `scores`, and which of its axes that takes
  // away.
  std::optional<int> FitsScores(const Scores::Mask& mask, const Shape& scores) const {
    if (mask.scores == scores) return 0;
    // [batch / windows, windows, ...] of [batch, ...]: the mask must not tell the former apart.
    const Shape& cut = mask.scores;
    if (cut.rank() != scores.rank() + 1 || cut[0] * cut[1] != scores[0]) return std::nullopt;
    for (int i = 1; i < scores.rank(); ++i) {
      if (cut[i + 1] != scores[i]) return std::nullopt;
    }
    const ValueId v = mask.where != kNoNode ? r_.node(mask.where).inputs[0] : mask.value;
    const Shape shape = *r_.ShapeOf(v);
    if (shape.rank() < cut.rank()) return 0;
    if (shape[0] != 1 || mask.where != kNoNode || r_.FloatConstant(v) == nullptr) {
      return std::nullopt;
    }
    return 1;
  }

  // The mask as it is added.
  ValueId FitMask(const Scores::Mask& mask, int leading) {
    if (mask.where != kNoNode) return AdditiveMask(mask);
    if (leading == 0) return mask.value;
    const Shape shape = *r_.ShapeOf(mask.value);
    return r_.AddConstant(r_.value(mask.value).name,
                          r_.FloatConstant(mask.value)->WithShape(Shape(shape.dims().subspan(1))));
  }

  // Turns the Where of a mask, which nobody else reads, into 0 where the scores are kept.
  ValueId AdditiveMask(const Scores::Mask& mask) {
    const Node& where = r_.node(mask.where);
    Node n;
    n.name = where.name;
    n.op = "Where";
    n.opset = where.opset;
    n.inputs = where.inputs;
    n.explicit_inputs = 3;
    const ValueId other = n.inputs[3 - mask.kept];
    static constexpr float kZero = 0.0f;
    n.inputs[mask.kept] = r_.AddConstant(fmt::format("{}_zero", r_.value(other).name),
                                         Tensor::Wrap(DType::kF32, Shape{}, &kZero));
    const ValueId result = r_.AddResult(fmt::format("{}_mask", r_.value(where.outputs[0]).name),
                                        TensorType::Of(DType::kF32, *r_.ShapeOf(where.inputs[0])));
    n.outputs = {result};
    r_.Replace(mask.where, std::move(n), {});
    return result;
  }

  // Q and K with the factors that they share the scores' scale with.
  bool Operands(const Scores& s, AttentionOperand& q, AttentionOperand& k) const {
    const Node& product = r_.node(s.product);
    const int rank = s.shape.rank();
    for (const Factors factors : {Factors::kTaken, Factors::kRefused}) {
      q = OperandOf(r_, product.inputs[0], s.product, LettersOf(rank, "sd"), DepthAxis::kAnywhere,
                    factors);
      k = OperandOf(r_, product.inputs[1], s.product, LettersOf(rank, "ds"), DepthAxis::kAnywhere,
                    factors);
      if (q.normalized == k.normalized && (!q.normalized || q.epsilon == k.epsilon)) return true;
    }
    return false;
  }

  static void SetLayout(Node* n, std::string_view operand, const ops::AttentionLayout& layout) {
    n->attributes.Set(fmt::format("{}_layout", operand), layout.letters);
    if (layout.part != 0) n->attributes.Set(fmt::format("{}_part", operand), layout.part);
  }

  // The Reshape that a scale was met behind reads what was scaled.
  void Unscale(const AttentionOperand& operand) {
    if (operand.reshape == kNoNode) return;
    r_.SetInput(operand.reshape, 0, operand.unscaled);
  }

  bool Attend(NodeId i) {
    const Node* context = r_.Match(i, "MatMul");
    if (context == nullptr) return false;
    Scores s;
    const NodeId softmax = SoftmaxOf(context->inputs[0], i, s);
    if (softmax == kNoNode || !ScoresOf(r_.node(softmax).inputs[0], softmax, s)) return false;
    // No operand broadcasts along the batch.
    const int rank = s.shape.rank();
    const Node& product = r_.node(s.product);
    for (ValueId v : {product.inputs[0], product.inputs[1], context->inputs[1]}) {
      const std::optional<Shape> shape = r_.ShapeOf(v);
      if (!shape || shape->rank() != rank) return false;
      for (int axis = 0; axis < rank - 2; ++axis) {
        if ((*shape)[axis] != s.shape[axis]) return false;
      }
    }
    if (r_.ShapeOf(product.outputs[0]) != s.shape) return false;

    AttentionOperand q, k;
    if (!Operands(s, q, k)) return false;
    const AttentionOperand v = OperandOf(r_, context->inputs[1], i, LettersOf(rank, "sd"),
                                         DepthAxis::kLast, Factors::kRefused);
    for (const Scores::Mask& mask : s.masks) {
      if (!FitsScores(mask, s.shape)) return false;
    }
    std::vector<ValueId> inputs = {q.value, k.value, v.value};
    for (const Scores::Mask& mask : s.masks) {
      inputs.push_back(FitMask(mask, *FitsScores(mask, s.shape)));
    }
    if (s.scales != kNoValue) {
      const Tensor* factors = r_.FloatConstant(s.scales);
      inputs.resize(5, kNoValue);
      inputs.push_back(
          r_.AddConstant(r_.value(s.scales).name, factors->WithShape(Shape{factors->elements()})));
    }
    Node fused = MakeFused(std::string(kFused), *context, std::move(inputs), context->outputs);
    SetLayout(&fused, "q", q.layout);
    SetLayout(&fused, "k", k.layout);
    SetLayout(&fused, "v", v.layout);
    SetLayout(&fused, "y", {.letters = LettersOf(rank, "sd"), .part = 0});
    fused.attributes.Set("scale", static_cast<float>(s.scale * q.scale * k.scale));
    if (q.normalized) {
      fused.attributes.Set("normalize", int64_t{1});
      fused.attributes.Set("epsilon", q.epsilon);
    }
    if (s.nan_rows_to_zero) fused.attributes.Set("nan_rows_to_zero", int64_t{1});
    Unscale(q);
    Unscale(k);
    r_.Replace(i, std::move(fused), {});
    return true;
  }

  // A Transpose of the result that keeps rows whole becomes its layout.
  void MoveHeads(NodeId i) {
    const Node* transpose = r_.Match(i, "Transpose");
    if (transpose == nullptr) return;
    const NodeId fused = r_.OnlyFor(transpose->inputs[0], i, kFused, kOwnDomain);
    if (fused == kNoNode) return;
    const std::string before(r_.node(fused).attributes.String("y_layout", ""));
    const std::string after = AfterTranspose(*transpose, before);
    if (!after.ends_with('d')) return;
    const Node& old = r_.node(fused);
    Node n = MakeFused(std::string(kFused), old, old.inputs, transpose->outputs);
    n.attributes = old.attributes;
    n.attributes.Set("y_layout", after);
    r_.Replace(i, std::move(n), {fused});
  }

  Rewriter r_;
};

}  // namespace

void FuseAttention(Graph* graph) {
  // Rewriter's own end comes first: what the operands were read through is dead only then.
  const bool fired = AttentionFuser(graph).Run();
  if (fired) RemoveDeadCode(graph);
}

}  // namespace parallax::passes
