#include "passes/attention_operand.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace parallax::passes {
namespace {

// The integers of a constant i64 or i32 tensor.
std::optional<std::vector<int64_t>> ConstantInts(const Rewriter& r, ValueId v) {
  if (v == kNoValue || r.value(v).origin != ValueOrigin::kConstant) return std::nullopt;
  const Tensor& t = r.value(v).constant;
  std::vector<int64_t> ints(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < ints.size(); ++i) {
    if (t.dtype() == DType::kI64) {
      std::memcpy(&ints[i], t.bytes_begin() + i * 8, 8);
    } else if (t.dtype() == DType::kI32) {
      int32_t value = 0;
      std::memcpy(&value, t.bytes_begin() + i * 4, 4);
      ints[i] = value;
    } else {
      return std::nullopt;
    }
  }
  return ints;
}

// The integers of attribute `name`, or of input `input` in opsets that moved them there.
std::optional<std::vector<int64_t>> IntsOf(const Rewriter& r, const Node& n, std::string_view name,
                                           size_t input) {
  if (const std::vector<int64_t>* ints = n.attributes.Ints(name)) return *ints;
  return n.inputs.size() > input ? ConstantInts(r, n.inputs[input]) : std::nullopt;
}

std::optional<int64_t> OneInt(const Rewriter& r, const Node& n, std::string_view name,
                              size_t input) {
  const std::optional<std::vector<int64_t>> ints = IntsOf(r, n, name, input);
  return ints && ints->size() == 1 ? std::optional<int64_t>((*ints)[0]) : std::nullopt;
}

// One step along an axis: `value` is element `part` of `from` there.
struct Part {
  ValueId from = kNoValue;
  int axis = 0;
  int64_t part = 0;
};

int Normalized(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// The one of equal parts of extent 1 that `v`, an output of Split or Slice, is.
std::optional<Part> PartOf(const Rewriter& r, ValueId v) {
  const NodeId p = r.Producer(v);
  if (p == kNoNode) return std::nullopt;
  const Node& n = r.node(p);
  const std::optional<Shape> shape = r.ShapeOf(v);
  if (!shape) return std::nullopt;
  if (r.Match(p, "Split") != nullptr) {
    const int axis = Normalized(n.attributes.Int("axis", 0), shape->rank());
    int64_t part = 0;
    for (ValueId out : n.outputs) {
      if (out == v) break;
      const std::optional<Shape> before = r.ShapeOf(out);
      if (out == kNoValue || !before || (*before)[axis] != 1) return std::nullopt;
      ++part;
    }
    if ((*shape)[axis] != 1) return std::nullopt;
    return Part{n.inputs[0], axis, part};
  }
  if (r.Match(p, "Slice") != nullptr) {
    const std::optional<int64_t> start = OneInt(r, n, "starts", 1);
    const std::optional<int64_t> axis_at = OneInt(r, n, "axes", 3);
    const std::optional<Shape> from = r.ShapeOf(n.inputs[0]);
    if (!start || !axis_at || !from) return std::nullopt;
    const int axis = Normalized(*axis_at, shape->rank());
    const int64_t extent = (*from)[axis];
    const int64_t part = *start < 0 ? *start + extent : *start;
    if ((*shape)[axis] != 1 || part < 0 || part >= extent) return std::nullopt;
    return Part{n.inputs[0], axis, part};
  }
  return std::nullopt;
}

// The part that `v` is, its axis taken away: Squeeze of the above, or Gather of one index.
std::optional<Part> SqueezedPartOf(const Rewriter& r, ValueId v) {
  const NodeId p = r.Producer(v);
  if (p == kNoNode) return std::nullopt;
  const Node& n = r.node(p);
  if (r.Match(p, "Gather") != nullptr) {
    const std::optional<Shape> from = r.ShapeOf(n.inputs[0]), index = r.ShapeOf(n.inputs[1]);
    const std::optional<std::vector<int64_t>> ints = ConstantInts(r, n.inputs[1]);
    if (!from || !index || index->rank() != 0 || !ints) return std::nullopt;
    const int axis = Normalized(n.attributes.Int("axis", 0), from->rank());
    const int64_t part = (*ints)[0] < 0 ? (*ints)[0] + (*from)[axis] : (*ints)[0];
    if (part < 0 || part >= (*from)[axis]) return std::nullopt;
    return Part{n.inputs[0], axis, part};
  }
  if (r.Match(p, "Squeeze") == nullptr) return std::nullopt;
  const std::optional<Part> part = PartOf(r, n.inputs[0]);
  const std::optional<int64_t> axis = OneInt(r, n, "axes", 1);
  const std::optional<Shape> shape = r.ShapeOf(n.inputs[0]);
  if (!part || !axis || !shape || Normalized(*axis, shape->rank()) != part->axis) {
    return std::nullopt;
  }
  return part;
}

// The lower bound of Clip or Max, whose other input is `value`; nothing where there is more.
struct Floored {
  ValueId value = kNoValue;
  float floor = 0;
};
std::optional<Floored> FlooredBy(const Rewriter& r, NodeId p) {
  const Node& n = r.node(p);
  if (r.Match(p, "Clip") != nullptr) {
    const bool inputs = n.opset >= 11;
    const bool has_max =
        inputs ? n.inputs.size() > 2 && n.inputs[2] != kNoValue : n.attributes.Has("max");
    if (has_max) return std::nullopt;
    const std::optional<float> min = !inputs               ? n.attributes.Float("min", NAN)
                                     : n.inputs.size() > 1 ? r.Scalar(n.inputs[1])
                                                           : std::nullopt;
    if (!min || !(*min >= 0)) return std::nullopt;
    return Floored{n.inputs[0], *min};
  }
  if (r.Match(p, "Max") != nullptr && n.inputs.size() == 2) {
    for (size_t i : {0, 1}) {
      const std::optional<float> min = r.Scalar(n.inputs[1 - i]);
      if (min && *min >= 0) return Floored{n.inputs[i], *min};
    }
  }
  return std::nullopt;
}

// x where node `i` is x / max(norm of x's rows, epsilon).
std::optional<Floored> NormalizedBy(const Rewriter& r, NodeId i) {
  const Node* div = r.Match(i, "Div");
  if (div == nullptr) return std::nullopt;
  Floored found{div->inputs[0], 0};
  NodeId p = r.Producer(div->inputs[1]);
  if (p != kNoNode && r.Match(p, "Expand") != nullptr) p = r.Producer(r.node(p).inputs[0]);
  if (p == kNoNode) return std::nullopt;
  if (const std::optional<Floored> floored = FlooredBy(r, p)) {
    found.floor = floored->floor;
    p = r.Producer(floored->value);
  }
  if (p == kNoNode || r.Match(p, "ReduceL2") == nullptr) return std::nullopt;
  const Node& norm = r.node(p);
  const std::optional<Shape> shape = r.ShapeOf(found.value);
  const std::optional<int64_t> axis = OneInt(r, norm, "axes", 1);
  if (norm.inputs[0] != found.value || norm.attributes.Int("keepdims", 1) == 0 || !axis || !shape ||
      Normalized(*axis, shape->rank()) != shape->rank() - 1) {
    return std::nullopt;
  }
  return found;
}

}  // namespace

std::optional<ScaledValue> ScaledBy(const Rewriter& r, NodeId i) {
  const bool div = r.Match(i, "Div") != nullptr;
  if (!div && r.Match(i, "Mul") == nullptr) return std::nullopt;
  const Node& n = r.node(i);
  for (size_t k : {1, 0}) {
    const std::optional<float> c = r.Scalar(n.inputs[k]);
    if (!c || (div && k == 0)) continue;
    const ValueId v = n.inputs[1 - k];
    // A constant of higher rank would give the result axes that the value lacks.
    if (!r.ShapeOf(v) || r.ShapeOf(v) != r.ShapeOf(n.outputs[0])) continue;
    const double factor = static_cast<double>(*c);
    return ScaledValue{v, div ? 1 / factor : factor};
  }
  return std::nullopt;
}

std::string BeforeTranspose(const Node& n, const std::string& letters) {
  std::string before(letters.size(), ' ');
  const std::vector<int64_t>* perm = n.attributes.Ints("perm");
  for (size_t i = 0; i < letters.size(); ++i) {
    const size_t from = perm != nullptr ? static_cast<size_t>((*perm)[i]) : letters.size() - 1 - i;
    before[from] = letters[i];
  }
  return before;
}

std::string AfterTranspose(const Node& n, const std::string& letters) {
  std::string after(letters.size(), ' ');
  const std::vector<int64_t>* perm = n.attributes.Ints("perm");
  for (size_t i = 0; i < letters.size(); ++i) {
    after[i] = letters[perm != nullptr ? static_cast<size_t>((*perm)[i]) : letters.size() - 1 - i];
  }
  return after;
}

AttentionOperand OperandOf(const Rewriter& r, ValueId v, NodeId reader, std::string letters,
                           DepthAxis depth, Factors factors) {
  AttentionOperand at, found;
  at.value = v;
  at.layout.letters = std::move(letters);
  bool alone = true;  // nobody else reads what was met so far
  for (;;) {
    const bool last = at.layout.letters.ends_with('d');
    if ((depth == DepthAxis::kAnywhere && !at.normalized) || last) found = at;
    const NodeId p = r.Producer(at.value);
    // An output is written anyway: reading it adds no work.
    if (p == kNoNode || !r.node(p).subgraphs.empty() || r.IsOutput(at.value)) return found;
    alone = alone && r.ReadOnlyBy(at.value, {reader});
    const Node& n = r.node(p);
    if (r.Match(p, "Transpose") != nullptr) {
      at.layout.letters = BeforeTranspose(n, at.layout.letters);
      at.value = n.inputs[0];
    } else if (r.Match(p, "Cast") != nullptr &&
               r.value(n.inputs[0]).type.dtype == r.value(at.value).type.dtype) {
      at.value = n.inputs[0];
    } else if (const std::optional<Part> part = SqueezedPartOf(r, at.value);
               part && at.layout.Axis('p') < 0) {
      at.layout.letters.insert(static_cast<size_t>(part->axis), 1, 'p');
      at.layout.part = part->part;
      at.value = part->from;
      alone = false;
    } else if (factors == Factors::kRefused) {
      return found;
    } else if (const std::optional<ScaledValue> scaled = ScaledBy(r, p); scaled && !at.normalized) {
      at.scale *= scaled->factor;
      at.value = scaled->value;
    } else if (const std::optional<Floored> norm = NormalizedBy(r, p);
               norm && last && !at.normalized) {
      at.normalized = true;
      at.epsilon = norm->floor;
      at.value = norm->value;
      alone = false;
    } else if (r.Match(p, "Reshape") != nullptr && alone && !at.normalized) {
      const NodeId scale = r.Producer(n.inputs[0]);
      const std::optional<ScaledValue> before =
          scale == kNoNode ? std::nullopt : ScaledBy(r, scale);
      if (before && r.ReadOnlyBy(n.inputs[0], {p})) {
        found = at;
        found.reshape = p;
        found.unscaled = before->value;
        found.scale *= before->factor;
      }
      return found;
    } else {
      return found;
    }
    reader = p;
  }
}

}  // namespace parallax::passes
