// Makes FusedConv nodes that follow each other one parallax::FusedConvChain, which is run a few rows
// at a time:
//
//   1x1 -> depthwise -> 1x1, 1x1 -> depthwise, depthwise -> 1x1.
//
// Contract: channels last, static shapes; every inner value is read by the next part only. Only where
// it pays: what stands between is much larger than the weights, which are read at every step, and
// would leave a small core's cache. Results stay the same bits.
#include <vector>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

constexpr std::string_view kConv = "FusedConv";
// Of inner tensors: a chain below this gains nothing.
constexpr int64_t kMinInnerBytes = 256 << 10;
constexpr int64_t kMinInnerToWeights = 4;

enum class Kind : uint8_t { kOther, kPointwise, kDepthwise };

class ChainFuser {
 public:
  explicit ChainFuser(Graph* graph) : r_(graph) {}

  void Run() {
    for (NodeId i = 0; i < r_.size();
         ++i) {  // the long ones first, so that no short one takes a part
      const NodeId depthwise = Before(i, Kind::kPointwise, Kind::kDepthwise);
      const NodeId first = Before(depthwise, Kind::kDepthwise, Kind::kPointwise);
      if (first != kNoNode) Fuse({first, depthwise, i});
    }
    for (NodeId i = 0; i < r_.size(); ++i) {
      NodeId before = Before(i, Kind::kPointwise, Kind::kDepthwise);
      if (before == kNoNode) before = Before(i, Kind::kDepthwise, Kind::kPointwise);
      if (before != kNoNode) Fuse({before, i});
    }
  }

 private:
  bool Has(NodeId i, size_t input) const {
    const Node& n = r_.node(i);
    return n.inputs.size() > input && n.inputs[input] != kNoValue;
  }

  Kind KindOf(NodeId i) const {
    const Node* n = i == kNoNode ? nullptr : r_.Match(i, kConv, kOwnDomain);
    if (n == nullptr || n->attributes.Int("channels_last", 0) == 0 ||
        n->attributes.Int("planar_input", 0) != 0 ||
        n->attributes.String("auto_pad", "NOTSET") != "NOTSET") {
      return Kind::kOther;
    }
    const std::optional<Shape> x = r_.ShapeOf(n->inputs[0]), y = r_.ShapeOf(n->outputs[0]);
    const std::optional<Shape> w = r_.ShapeOf(n->inputs[1]);
    if (!x || !y || !w || x->rank() != 4 || x->elements() == 0 || y->elements() == 0) {
      return Kind::kOther;
    }
    for (int64_t d : Ints(*n, "dilations", 2, 1)) {
      if (d != 1) return Kind::kOther;
    }
    const int64_t groups = n->attributes.Int("group", 1);
    if (groups > 1 && groups == (*x)[3] && groups == (*y)[3]) return Kind::kDepthwise;
    // No padding and no stride: the picture stays as large as it is.
    const bool same = (*x)[1] == (*y)[1] && (*x)[2] == (*y)[2];
    for (int64_t p : Ints(*n, "pads", 4, 0)) {
      if (p != 0) return Kind::kOther;
    }
    for (int64_t s : Ints(*n, "strides", 2, 1)) {
      if (s != 1) return Kind::kOther;
    }
    return groups == 1 && same && (*w)[2] == 1 && (*w)[3] == 1 ? Kind::kPointwise : Kind::kOther;
  }

  static std::vector<int64_t> Ints(const Node& n, std::string_view name, size_t count,
                                   int64_t fallback) {
    const std::vector<int64_t>* given = n.attributes.Ints(name);
    return given != nullptr ? *given : std::vector<int64_t>(count, fallback);
  }

  // The node of kind `wanted` that makes what `reader`, of kind `kind`, reads alone; without a residual.
  NodeId Before(NodeId reader, Kind kind, Kind wanted) const {
    if (reader == kNoNode || KindOf(reader) != kind) return kNoNode;
    const ValueId x = r_.node(reader).inputs[0];
    const NodeId before = r_.OnlyFor(x, reader, kConv, kOwnDomain);
    if (KindOf(before) != wanted || Has(before, 3)) return kNoNode;
    return before;
  }

  bool Pays(const std::vector<NodeId>& stages) const {
    int64_t inner = 0, weights = 0;
    for (size_t i = 0; i < stages.size(); ++i) {
      const Node& n = r_.node(stages[i]);
      weights += r_.ShapeOf(n.inputs[1])->elements();
      if (i + 1 < stages.size()) inner += r_.ShapeOf(n.outputs[0])->elements();
    }
    inner /= (*r_.ShapeOf(r_.node(stages[0]).inputs[0]))[0];  // of one image
    return inner * 4 >= kMinInnerBytes && inner >= kMinInnerToWeights * weights;
  }

  void Fuse(const std::vector<NodeId>& stages) {
    if (!Pays(stages)) return;
    const Node& last = r_.node(stages.back());
    const auto input = [](const Node& n, size_t i) {
      return n.inputs.size() > i ? n.inputs[i] : kNoValue;
    };
    std::vector<ValueId> inputs = {r_.node(stages[0]).inputs[0], input(last, 3)};
    std::vector<int64_t> strides, pads, groups;
    std::vector<std::string> activations;
    std::vector<float> alphas, betas, scales, shifts;
    for (NodeId i : stages) {
      const Node& n = r_.node(i);
      inputs.push_back(n.inputs[1]);
      inputs.push_back(input(n, 2));
      for (int64_t s : Ints(n, "strides", 2, 1)) strides.push_back(s);
      for (int64_t p : Ints(n, "pads", 4, 0)) pads.push_back(p);
      groups.push_back(n.attributes.Int("group", 1));
      activations.emplace_back(n.attributes.String("activation", ""));
      alphas.push_back(n.attributes.Float("activation_alpha", 0));
      betas.push_back(n.attributes.Float("activation_beta", 0));
      scales.push_back(n.attributes.Float("output_scale", 1));
      shifts.push_back(n.attributes.Float("output_shift", 0));
    }
    Node chain = MakeFused("FusedConvChain", last, std::move(inputs), last.outputs);
    chain.attributes.Set("strides", std::move(strides));
    chain.attributes.Set("pads", std::move(pads));
    chain.attributes.Set("groups", std::move(groups));
    chain.attributes.Set("activations", std::move(activations));
    chain.attributes.Set("activation_alphas", std::move(alphas));
    chain.attributes.Set("activation_betas", std::move(betas));
    chain.attributes.Set("output_scales", std::move(scales));
    chain.attributes.Set("output_shifts", std::move(shifts));
    chain.attributes.Set("residual_last", last.attributes.Int("residual_last", 0));
    r_.Replace(stages.back(), std::move(chain), std::span(stages).first(stages.size() - 1));
  }

  Rewriter r_;
};

}  // namespace

void FuseConvChain(Graph* graph) { ChainFuser(graph).Run(); }

}  // namespace parallax::passes
