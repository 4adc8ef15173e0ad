// Folds what a Conv's result is scaled and shifted by, one value a channel or one for all, into its
// weights and bias: BatchNormalization, and Mul, Div, Add and Sub with a constant.
//
//   BatchNormalization: s = scale / sqrt(var + epsilon), y = (x - mean) s + B
//   in general          y = x s + t: weights W s, bias b s + t
//
// Contract: f32 constants; every inner value is read by the next node only. The products of each
// output are rounded otherwise than before; weights are computed in f64 and rounded once a fold.
// Nothing is folded where a weight or bias would not be finite. Ranks must be known, shapes need not:
// it runs once for a session, so that all its plans share the weights.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

using Values = std::vector<double>;  // one a channel

double FloatAt(const Tensor& t, int64_t i) {
  float f = 0;
  std::memcpy(&f, t.bytes_begin() + i * static_cast<int64_t>(sizeof f), sizeof f);
  return static_cast<double>(f);
}

bool AllFinite(const Tensor& t) {
  const float* x = t.data<float>();
  return std::all_of(x, x + t.elements(), [](float v) { return std::isfinite(v); });
}

// A constant f32 vector of `n` elements, or nothing.
std::optional<Values> VectorOf(const Rewriter& r, ValueId v, int64_t n) {
  const Tensor* t = r.FloatConstant(v);
  if (t == nullptr || t->elements() != n) return std::nullopt;
  Values values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = FloatAt(*t, i);
  return values;
}

// A constant that broadcasts over a Conv's result of that rank as one value, or one a channel.
std::optional<Values> ChannelsOf(const Rewriter& r, ValueId v, int64_t channels, int rank) {
  const Tensor* t = r.FloatConstant(v);
  if (t == nullptr || t->shape().rank() > rank) return std::nullopt;
  if (t->elements() == 1) {
    return Values(static_cast<size_t>(channels), FloatAt(*t, 0));
  }
  const int axis = t->shape().rank() - (rank - 1);  // of the channels
  if (axis < 0 || t->elements() != channels || t->shape()[axis] != channels) return std::nullopt;
  return VectorOf(r, v, channels);
}

// What a node does to each channel of its input `x`.
struct Affine {
  ValueId x = kNoValue;
  Values scale, shift;
  bool scales = true;  // some scale is not 1
};

std::optional<Affine> BatchNorm(const Rewriter& r, const Node& n, int64_t channels) {
  if (n.inputs.size() != 5 || n.outputs.size() != 1 || n.attributes.Int("training_mode", 0) != 0) {
    return std::nullopt;
  }
  const auto scale = VectorOf(r, n.inputs[1], channels), shift = VectorOf(r, n.inputs[2], channels);
  const auto mean = VectorOf(r, n.inputs[3], channels), var = VectorOf(r, n.inputs[4], channels);
  if (!scale || !shift || !mean || !var) return std::nullopt;
  Affine a{n.inputs[0], *scale, *shift};
  const double epsilon = static_cast<double>(n.attributes.Float("epsilon", 1e-5f));
  for (size_t c = 0; c < a.scale.size(); ++c) {
    a.scale[c] /= std::sqrt((*var)[c] + epsilon);
    a.shift[c] -= (*mean)[c] * a.scale[c];
  }
  return a;
}

std::optional<Affine> Arithmetic(const Rewriter& r, const Node& n, size_t constant,
                                 int64_t channels, int rank) {
  const auto values = ChannelsOf(r, n.inputs[constant], channels, rank);
  if (!values) return std::nullopt;
  Affine a{n.inputs[1 - constant], Values(values->size(), 1), Values(values->size(), 0)};
  a.scales = n.op == "Mul" || n.op == "Div";
  for (size_t c = 0; c < values->size(); ++c) {
    const double v = (*values)[c];
    if (n.op == "Mul") a.scale[c] = v;
    if (n.op == "Div") a.scale[c] = 1 / v;
    if (n.op == "Add") a.shift[c] = v;
    if (n.op == "Sub") a.shift[c] = -v;
  }
  return a;
}

Result<void> Fold(Rewriter& r, NodeId i) {
  const Node& n = r.node(i);
  const bool norm = r.Match(i, "BatchNormalization") != nullptr;
  const bool either = r.Match(i, "Mul") != nullptr || r.Match(i, "Add") != nullptr;
  const bool second = r.Match(i, "Div") != nullptr || r.Match(i, "Sub") != nullptr;
  if (!norm && !either && !second) return {};
  for (size_t k : {size_t{0}, size_t{1}}) {  // where the Conv's result stands
    if (k == 1 && !either) break;
    const NodeId c = r.OnlyFor(n.inputs[k], i, "Conv");
    if (c == kNoNode) continue;
    const Node& conv = r.node(c);
    const Tensor* weights = r.FloatConstant(conv.inputs[1]);
    if (weights == nullptr || weights->elements() == 0) continue;
    const int64_t channels = weights->shape()[0];
    const std::optional<Affine> a =
        norm ? BatchNorm(r, n, channels)
             : Arithmetic(r, n, 1 - k, channels, weights->shape().rank());
    const bool biased = conv.inputs.size() > 2 && conv.inputs[2] != kNoValue;
    const auto bias =
        biased ? VectorOf(r, conv.inputs[2], channels) : Values(static_cast<size_t>(channels), 0.0);
    if (!a || !bias) continue;

    PX_ASSIGN_OR_RETURN(Tensor offsets, Tensor::Allocate(DType::kF32, Shape{channels}));
    for (size_t oc = 0; oc < bias->size(); ++oc) {
      offsets.mutable_data<float>()[oc] =
          static_cast<float>((*bias)[oc] * a->scale[oc] + a->shift[oc]);
    }
    if (!AllFinite(offsets)) continue;
    ValueId w = conv.inputs[1];
    if (a->scales) {
      PX_ASSIGN_OR_RETURN(Tensor folded, Tensor::Allocate(DType::kF32, weights->shape()));
      const int64_t depth = weights->elements() / channels;
      float* to = folded.mutable_data<float>();
      for (int64_t e = 0; e < weights->elements(); ++e) {
        to[e] = static_cast<float>(FloatAt(*weights, e) * a->scale[static_cast<size_t>(e / depth)]);
      }
      if (!AllFinite(folded)) continue;
      weights->DropPages();
      w = r.AddConstant(r.value(w).name + " (folded)", std::move(folded));
    }
    const ValueId b = r.AddConstant(r.node(c).name + " bias (folded)", std::move(offsets));
    Node fused;
    fused.name = r.node(c).name;
    fused.op = "Conv";
    fused.opset = r.node(c).opset;
    fused.inputs = {r.node(c).inputs[0], w, b};
    fused.outputs = r.node(i).outputs;
    fused.explicit_inputs = 3;
    fused.attributes = r.node(c).attributes;
    r.Replace(i, std::move(fused), {c});
    return {};
  }
  return {};
}

}  // namespace

Result<void> FoldAffine(Graph* graph) {
  Rewriter r(graph);
  for (NodeId i = 0; i < r.size(); ++i) {
    for (Subgraph& s : r.graph().node(i).subgraphs) {
      PX_RETURN_IF_ERROR(FoldAffine(s.graph.get()));
    }
    PX_RETURN_IF_ERROR(Fold(r, i));
  }
  return {};
}

}  // namespace parallax::passes
