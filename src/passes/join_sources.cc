// Lets a parallax::FusedConv read its input where the parts of it lie:
//
//   Concat of channels -> conv   reads every part itself
//   Split of channels -> conv    reads its part of the picture
//
// so that nothing is copied before. What only other nodes read of a Split is still made.
//
// Contract: channels last, static shapes, groups of 1; results stay the same but for the order of
// sums.
#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/core/conv_sources.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

// Channels that a tile reads through one set of pointers: with fewer, setting them takes longer than
// the copy.
constexpr int64_t kMinTogether = 16;

struct Source {
  ValueId value = kNoValue;
  int64_t first = 0, channels = 0;
};

class SourceJoiner {
 public:
  explicit SourceJoiner(Graph* graph) : r_(graph) {}

  void Run() {
    for (NodeId i = 0; i < r_.size(); ++i) {
      if (r_.Match(i, "FusedConv", kOwnDomain) != nullptr) Visit(i);
    }
    // An output of a Split that nobody reads any more is not made.
    for (NodeId i = 0; i < r_.size(); ++i) {
      if (r_.Match(i, "Split") == nullptr) continue;
      for (ValueId& v : r_.graph().node(i).outputs) {
        if (v != kNoValue && r_.ReadOnlyBy(v, {})) v = kNoValue;
      }
    }
  }

 private:
  // Of a picture with channels last.
  int64_t ChannelsOf(ValueId v) const {
    const std::optional<Shape> s = r_.ShapeOf(v);
    return s ? (*s)[s->rank() - 1] : 0;
  }
  bool AlongChannels(const Node& n, ValueId v) const {
    const int64_t axis = n.attributes.Int("axis", 0), rank = r_.value(v).type.rank();
    return rank >= 3 && (axis == rank - 1 || axis == -1);
  }

  void Visit(NodeId i) {
    const Node& n = r_.node(i);
    const std::optional<Shape> x = r_.ShapeOf(n.inputs[0]), w = r_.ShapeOf(n.inputs[1]);
    if (!x || !w || x->elements() == 0 || n.attributes.Int("channels_last", 0) == 0 ||
        n.attributes.Int("planar_input", 0) != 0 || n.attributes.Int("group", 1) != 1 ||
        n.attributes.Has("source_first") || n.inputs.size() > ops::kFirstFurtherSource) {
      return;
    }
    std::vector<Source> sources = {{n.inputs[0], 0, ChannelsOf(n.inputs[0])}};
    std::vector<NodeId> dropped;
    const NodeId concat = r_.OnlyFor(n.inputs[0], i, "Concat");
    if (concat != kNoNode && AlongChannels(r_.node(concat), n.inputs[0])) {
      const Node& c = r_.node(concat);
      int64_t together = 0, least = kMinTogether;
      std::vector<Source> parts;
      for (ValueId v : c.inputs) {
        parts.push_back({v, 0, ChannelsOf(v)});
        together = std::gcd(together, parts.back().channels);
        least = std::min(least, parts.back().channels);
      }
      if (together >= kMinTogether && least > 0 && parts.size() <= ops::kMaxSources) {
        sources = std::move(parts);
        dropped.push_back(concat);
      }
    }
    bool splits = false;
    for (Source& s : sources) splits |= FromSplit(&s);
    if (dropped.empty() && !splits) return;

    std::vector<ValueId> inputs = n.inputs;
    inputs.resize(ops::kFirstFurtherSource, kNoValue);
    inputs[0] = sources[0].value;
    std::vector<int64_t> first, channels;
    for (const Source& s : sources) {
      if (!first.empty()) inputs.push_back(s.value);
      first.push_back(s.first);
      channels.push_back(s.channels);
    }
    Node joined = MakeFused("FusedConv", n, std::move(inputs), n.outputs);
    joined.attributes = n.attributes;
    joined.attributes.Set("source_first", std::move(first));
    joined.attributes.Set("source_channels", std::move(channels));
    r_.Replace(i, std::move(joined), dropped);
  }

  // Makes `s` the part of what its Split reads.
  bool FromSplit(Source* s) const {
    const NodeId split = r_.Producer(s->value);
    if (split == kNoNode || r_.Match(split, "Split") == nullptr || s->channels < kMinTogether) {
      return false;
    }
    const Node& n = r_.node(split);
    if (!AlongChannels(n, s->value)) return false;
    int64_t first = 0;
    for (ValueId v : n.outputs) {
      if (v == kNoValue) return false;  // of no known size
      if (v == s->value) break;
      first += ChannelsOf(v);
    }
    s->value = n.inputs[0];
    s->first += first;
    return true;
  }

  Rewriter r_;
};

}  // namespace

void JoinSources(Graph* graph) { SourceJoiner(graph).Run(); }

}  // namespace parallax::passes
