// Makes a Conv and what follows it one parallax::FusedConv:
//
//   Conv -> Add of a constant per channel -> activation -> scale -> Add of a tensor of the same shape,
//   Conv -> Add of a tensor of the same shape -> activation -> scale,
//
// each part but the Conv optional; the scale, any number of Mul and Add with one number each, only after
// an activation (before one it went into the weights).
//
// Contract: f32; every inner value is read by the next part only. Results stay
// the same bits but for activations, which are evaluated by the same functions, and scales, whose
// product and sum are rounded once.
#include <cmath>

#include "ops/core/epilogue_op.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

constexpr std::string_view kFused = "FusedConv";

class ConvFuser {
 public:
  explicit ConvFuser(Graph* graph) : r_(graph) {}

  void Run() {
    for (NodeId i = 0; i < r_.size(); ++i) {
      // A part moves the fused node to its own place, where the next part finds it.
      Start(i);
      if (!Bias(i) && !Residual(i) && !Scale(i)) Activation(i);
    }
  }

 private:
  void Start(NodeId i) {
    const Node* n = r_.Match(i, "Conv");
    if (n == nullptr) return;
    if (r_.value(n->outputs[0]).type.dtype != DType::kF32 || !r_.ShapeOf(n->outputs[0])) return;
    Node fused = MakeFused(std::string(kFused), *n, n->inputs, n->outputs);
    fused.attributes = n->attributes;
    r_.Replace(i, std::move(fused), {});
  }

  // The fused node that makes `v` for `reader` only.
  NodeId Before(ValueId v, NodeId reader) const {
    return v == kNoValue ? kNoNode : r_.OnlyFor(v, reader, kFused, kOwnDomain);
  }
  bool Has(NodeId fused, size_t input) const {
    const Node& n = r_.node(fused);
    return n.inputs.size() > input && n.inputs[input] != kNoValue;
  }
  bool Activated(NodeId fused) const { return r_.node(fused).attributes.Has("activation"); }

  // The fused node at `at`, whose node it takes in, with another input where `v` is a value.
  void Extend(NodeId at, NodeId fused, size_t input, ValueId v) {
    const Node& old = r_.node(fused);
    std::vector<ValueId> inputs = old.inputs;
    if (v != kNoValue) {
      if (inputs.size() <= input) inputs.resize(input + 1, kNoValue);
      inputs[input] = v;
    }
    Node n = MakeFused(std::string(kFused), old, std::move(inputs), r_.node(at).outputs);
    n.attributes = old.attributes;
    r_.Replace(at, std::move(n), {fused});
  }

  bool Bias(NodeId i) {
    const Node* add = r_.Match(i, "Add");
    if (add == nullptr) return false;
    for (size_t k : {0, 1}) {
      const NodeId conv = Before(add->inputs[k], i);
      const Tensor* bias = r_.FloatConstant(add->inputs[1 - k]);
      if (conv == kNoNode || bias == nullptr || Has(conv, 2) || Has(conv, 3) || Activated(conv)) {
        continue;
      }
      const Shape out = *r_.ShapeOf(add->inputs[k]);
      // [C, 1, 1...], with leading ones or without.
      if (bias->elements() != out[1]) continue;
      const int at = bias->shape().rank() - (out.rank() - 1);
      if (at < 0 || bias->shape()[at] != out[1] || bias->shape().rank() > out.rank()) continue;
      const ValueId flat =
          r_.AddConstant(r_.value(add->inputs[1 - k]).name, bias->WithShape(Shape{out[1]}));
      Extend(i, conv, 2, flat);
      return true;
    }
    return false;
  }

  bool Residual(NodeId i) {
    const Node* add = r_.Match(i, "Add");
    if (add == nullptr) return false;
    const std::optional<Shape> shape = r_.ShapeOf(add->outputs[0]);
    for (size_t k : {0, 1}) {
      const NodeId conv = Before(add->inputs[k], i);
      const ValueId other = add->inputs[1 - k];
      if (conv == kNoNode || Has(conv, 3) || !shape || r_.ShapeOf(other) != shape ||
          r_.ShapeOf(add->inputs[k]) != shape) {
        continue;
      }
      const bool last = Activated(conv);
      Extend(i, conv, 3, other);
      if (last) r_.graph().node(i).attributes.Set("residual_last", int64_t{1});
      return true;
    }
    return false;
  }

  bool Scale(NodeId i) {
    const bool multiplies = r_.Match(i, "Mul") != nullptr;
    if (!multiplies && r_.Match(i, "Add") == nullptr) return false;
    const Node& n = r_.node(i);
    for (size_t k : {0, 1}) {
      const NodeId conv = Before(n.inputs[k], i);
      const std::optional<float> by = r_.Scalar(n.inputs[1 - k]);
      // The number's shape must not widen the result.
      if (conv == kNoNode || !by || !Activated(conv) ||
          r_.ShapeOf(n.outputs[0]) != r_.ShapeOf(n.inputs[k]) ||
          r_.node(conv).attributes.Int("residual_last", 0) != 0) {
        continue;
      }
      const Attributes& old = r_.node(conv).attributes;
      float scale = old.Float("output_scale", 1), shift = old.Float("output_shift", 0);
      if (multiplies) scale *= *by;
      shift = multiplies ? shift * *by : shift + *by;
      // Numbers whose product is too large, or too small, are not one number.
      if (!std::isfinite(shift) || !(std::isnormal(scale) || *by == 0.0f)) continue;
      Extend(i, conv, 0, kNoValue);
      Attributes& a = r_.graph().node(i).attributes;
      a.Set("output_scale", scale);
      a.Set("output_shift", shift);
      return true;
    }
    return false;
  }

  void Activation(NodeId i) {
    if (r_.Match(i, kFused, kOwnDomain) != nullptr || r_.node(i).inputs.empty()) return;
    const NodeId conv = Before(r_.node(i).inputs[0], i);
    if (conv == kNoNode || Activated(conv)) return;
    const std::optional<ops::FusedActivation> activation =
        ops::ActivationOf(r_.graph(), r_.node(i));
    if (!activation) return;
    Extend(i, conv, 0, kNoValue);
    ops::SetActivation(&r_.graph().node(i), *activation);
  }

  Rewriter r_;
};

}  // namespace

void FuseConv(Graph* graph) { ConvFuser(graph).Run(); }

}  // namespace parallax::passes
