// Gives activations that exporters spell out in several nodes the one operator they are:
//
//   x * Sigmoid(x), x * Sigmoid(a x)          Swish
//   x * Clip(x + 3, 0, 6) / 6, in any order,
//   x * HardSigmoid(x; 1/6, 1/2)              HardSwish
//   x * (Erf(x / sqrt 2) + 1) / 2, any order  Gelu
//   x * (Tanh(sqrt(2 / pi) (x + 0.044715 x^3)) + 1) / 2, likewise, x^3 by products or Pow
//                                             Gelu, approximate = "tanh"
//
// Contract: f32 values; inner values are read by the pattern only; results differ from the spelled
// out ones by rounding.
#include <cmath>
#include <vector>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace parallax::passes {
namespace {

constexpr double kPi = 3.14159265358979323846;

bool Near(std::optional<float> v, double wanted) {
  return v.has_value() && std::abs(*v - wanted) <= 1e-5 * std::abs(wanted);
}

// A node of ai.onnx with one input and output.
Node Unary(const Node& last, std::string op, int opset, ValueId x) {
  Node n;
  n.name = last.name;
  n.op = std::move(op);
  n.opset = opset;
  n.inputs = {x};
  n.outputs = last.outputs;
  n.explicit_inputs = 1;
  return n;
}

class Namer {
 public:
  explicit Namer(Graph* graph) : r_(graph) {}

  void Run() {
    for (NodeId i = 0; i < r_.size(); ++i) {
      if (!Swish(i) && !HardSwish(i)) Gelu(i);
    }
  }

 private:
  // The other factor of a product or sum when one of the two is `op`'s result for it alone.
  struct Pair {
    NodeId inner = kNoNode;
    ValueId other = kNoValue;
  };
  Pair With(NodeId i, std::string_view outer, std::string_view inner) const {
    const Node* n = r_.Match(i, outer);
    if (n == nullptr || n->inputs.size() != 2 || n->inputs[0] == n->inputs[1]) return {};
    for (size_t k : {0, 1}) {
      const NodeId p = r_.OnlyFor(n->inputs[k], i, inner);
      if (p != kNoNode) return {p, n->inputs[1 - k]};
    }
    return {};
  }
  // n = value `op` scalar in either order for commutative ones: the value and the scalar.
  struct WithScalar {
    ValueId value = kNoValue;
    float scalar = 0;
  };
  std::optional<WithScalar> ScalarOperand(NodeId i, std::string_view op) const {
    const Node* n = r_.Match(i, op);
    if (n == nullptr || n->inputs.size() != 2) return std::nullopt;
    if (const auto s = r_.Scalar(n->inputs[1])) return WithScalar{n->inputs[0], *s};
    if (op == "Div" || op == "Sub") return std::nullopt;
    if (const auto s = r_.Scalar(n->inputs[0])) return WithScalar{n->inputs[1], *s};
    return std::nullopt;
  }
  bool Float(ValueId v) const { return r_.value(v).type.dtype == DType::kF32; }

  bool Swish(NodeId i) {
    const Pair p = With(i, "Mul", "Sigmoid");
    if (p.inner == kNoNode || !Float(p.other)) return false;
    const ValueId x = r_.node(p.inner).inputs[0];
    float alpha = 1;
    NodeId scale = kNoNode;
    if (x != p.other) {
      scale = r_.OnlyFor(x, p.inner, "Mul");
      if (scale == kNoNode) return false;
      const auto s = ScalarOperand(scale, "Mul");
      if (!s || s->value != p.other) return false;
      alpha = s->scalar;
    }
    Node fused = Unary(r_.node(i), "Swish", 24, p.other);
    fused.attributes.Set("alpha", alpha);
    if (scale == kNoNode) {
      r_.Replace(i, std::move(fused), {p.inner});
    } else {
      r_.Replace(i, std::move(fused), {p.inner, scale});
    }
    return true;
  }

  // Clip(x + 3, 0, 6): x, and the nodes.
  struct Ramp {
    ValueId x = kNoValue;
    NodeId clip = kNoNode, add = kNoNode;
  };
  std::optional<Ramp> RampOf(NodeId clip) const {
    if (clip == kNoNode) return std::nullopt;
    const Node& n = r_.node(clip);
    const bool inputs = n.opset >= 11;
    const auto bound = [&](std::string_view name, size_t input) -> std::optional<float> {
      if (!inputs) return n.attributes.Float(name, NAN);
      return n.inputs.size() > input ? r_.Scalar(n.inputs[input]) : std::nullopt;
    };
    const auto lo = bound("min", 1), hi = bound("max", 2);
    if (!lo || *lo != 0 || !Near(hi, 6)) return std::nullopt;
    const NodeId add = r_.OnlyFor(n.inputs[0], clip, "Add");
    if (add == kNoNode) return std::nullopt;
    const auto s = ScalarOperand(add, "Add");
    if (!s || !Near(s->scalar, 3)) return std::nullopt;
    return Ramp{s->value, clip, add};
  }
  bool Sixth(NodeId i, ValueId* value) const {
    if (const auto s = ScalarOperand(i, "Div"); s && Near(s->scalar, 6)) {
      *value = s->value;
      return true;
    }
    if (const auto s = ScalarOperand(i, "Mul"); s && Near(s->scalar, 1.0 / 6)) {
      *value = s->value;
      return true;
    }
    return false;
  }

  bool HardSwish(NodeId i) {
    ValueId product = kNoValue;
    if (Sixth(i, &product)) {  // (x * ramp) / 6
      const NodeId mul = r_.OnlyFor(product, i, "Mul");
      const Pair p = mul == kNoNode ? Pair() : With(mul, "Mul", "Clip");
      const auto ramp = RampOf(p.inner);
      if (ramp && ramp->x == p.other && Float(ramp->x)) {
        r_.Replace(i, Unary(r_.node(i), "HardSwish", 14, ramp->x), {mul, ramp->clip, ramp->add});
        return true;
      }
    }
    for (const std::string_view scale : {"Div", "Mul"}) {  // x * (ramp / 6)
      const Pair p = With(i, "Mul", scale);
      ValueId clipped = kNoValue;
      if (p.inner == kNoNode || !Sixth(p.inner, &clipped)) continue;
      const auto ramp = RampOf(r_.OnlyFor(clipped, p.inner, "Clip"));
      if (!ramp || ramp->x != p.other || !Float(ramp->x)) continue;
      r_.Replace(i, Unary(r_.node(i), "HardSwish", 14, ramp->x), {p.inner, ramp->clip, ramp->add});
      return true;
    }
    const Pair p = With(i, "Mul", "HardSigmoid");
    if (p.inner == kNoNode) return false;
    const Node& sigmoid = r_.node(p.inner);
    if (sigmoid.inputs[0] != p.other || !Float(p.other) ||
        !Near(sigmoid.attributes.Float("alpha", 0.2f), 1.0 / 6) ||
        !Near(sigmoid.attributes.Float("beta", 0.5f), 0.5)) {
      return false;
    }
    r_.Replace(i, Unary(r_.node(i), "HardSwish", 14, p.other), {p.inner});
    return true;
  }

  // Twice the part of x that Gelu lets through: 1 + Erf(x / sqrt 2), or its approximation by Tanh.
  struct Gate {
    ValueId x = kNoValue;
    bool tanh = false;
    std::vector<NodeId> nodes;
  };
  std::optional<Gate> GateOf(ValueId v, NodeId reader) const {
    const NodeId add = r_.OnlyFor(v, reader, "Add");
    if (add == kNoNode) return std::nullopt;
    const auto one = ScalarOperand(add, "Add");
    if (!one || one->scalar != 1) return std::nullopt;
    if (const NodeId erf = r_.OnlyFor(one->value, add, "Erf"); erf != kNoNode) {
      const ValueId scaled = r_.node(erf).inputs[0];
      for (const std::string_view op : {"Div", "Mul"}) {
        const NodeId scale = r_.OnlyFor(scaled, erf, op);
        if (scale == kNoNode) continue;
        const auto s = ScalarOperand(scale, op);
        if (s && Near(s->scalar, op == "Div" ? std::sqrt(2.0) : std::sqrt(0.5))) {
          return Gate{s->value, false, {add, erf, scale}};
        }
      }
      return std::nullopt;
    }
    const NodeId tanh = r_.OnlyFor(one->value, add, "Tanh");
    if (tanh == kNoNode) return std::nullopt;
    const NodeId scale = r_.OnlyFor(r_.node(tanh).inputs[0], tanh, "Mul");
    if (scale == kNoNode) return std::nullopt;
    const auto s = ScalarOperand(scale, "Mul");
    if (!s || !Near(s->scalar, std::sqrt(2 / kPi))) return std::nullopt;
    const NodeId sum = r_.OnlyFor(s->value, scale, "Add");
    if (sum == kNoNode) return std::nullopt;
    for (size_t k : {0, 1}) {
      Gate gate{r_.node(sum).inputs[1 - k], true, {add, tanh, scale, sum}};
      Power cubic;
      if (Multiply(r_.node(sum).inputs[k], sum, gate.x, &cubic, &gate.nodes) &&
          cubic.exponent == 3 && Near(cubic.factor, 0.044715)) {
        return gate;
      }
    }
    return std::nullopt;
  }

  // factor * x^exponent.
  struct Power {
    float factor = 1;
    int exponent = 0;
  };
  // Multiplies `power` by `v`, which `reader` reads: a number, x, or products and powers of these made
  // for it alone, whose nodes it adds. False where it is something else.
  bool Multiply(ValueId v, NodeId reader, ValueId x, Power* power,
                std::vector<NodeId>* nodes) const {
    constexpr int kMaxExponent = 8;
    if (power->exponent > kMaxExponent) return false;
    if (v == x) {
      ++power->exponent;
      return true;
    }
    if (const auto scalar = r_.Scalar(v)) {
      power->factor *= *scalar;
      return true;
    }
    if (const NodeId pow = r_.OnlyFor(v, reader, "Pow"); pow != kNoNode) {
      const auto exponent = r_.Scalar(r_.node(pow).inputs[1]);
      if (r_.node(pow).inputs[0] != x || (exponent != 2.0f && exponent != 3.0f)) return false;
      power->exponent += static_cast<int>(*exponent);
      nodes->push_back(pow);
      return true;
    }
    const NodeId mul = r_.OnlyFor(v, reader, "Mul");
    if (mul == kNoNode) return false;
    nodes->push_back(mul);
    const Node& n = r_.node(mul);
    return Multiply(n.inputs[0], mul, x, power, nodes) &&
           Multiply(n.inputs[1], mul, x, power, nodes);
  }

  void Gelu(NodeId i) {
    if (r_.Match(i, "Mul") == nullptr) return;
    // Three factors, x, 1/2 and the gate, multiplied in any order: two products.
    if (const auto half = ScalarOperand(i, "Mul"); half && half->scalar == 0.5f) {
      const NodeId mul = r_.OnlyFor(half->value, i, "Mul");
      if (mul == kNoNode) return;
      for (size_t k : {0, 1}) {
        const auto e = GateOf(r_.node(mul).inputs[k], mul);
        if (e && e->x == r_.node(mul).inputs[1 - k] && Float(e->x)) {
          return Put(i, *e, mul);
        }
      }
      return;
    }
    const Node& n = r_.node(i);
    for (size_t k : {0, 1}) {
      const ValueId other = n.inputs[1 - k];
      if (const auto e = GateOf(n.inputs[k], i)) {  // (x / 2) * gate
        const NodeId mul = r_.OnlyFor(other, i, "Mul");
        const auto half = mul == kNoNode ? std::nullopt : ScalarOperand(mul, "Mul");
        if (half && half->scalar == 0.5f && half->value == e->x && Float(e->x)) {
          return Put(i, *e, mul);
        }
      }
      const NodeId mul = r_.OnlyFor(n.inputs[k], i, "Mul");  // x * (gate / 2)
      const auto half = mul == kNoNode ? std::nullopt : ScalarOperand(mul, "Mul");
      if (!half || half->scalar != 0.5f) continue;
      const auto e = GateOf(half->value, mul);
      if (e && e->x == other && Float(e->x)) return Put(i, *e, mul);
    }
  }
  void Put(NodeId i, const Gate& gate, NodeId mul) {
    Node gelu = Unary(r_.node(i), "Gelu", 20, gate.x);
    if (gate.tanh) gelu.attributes.Set("approximate", std::string("tanh"));
    std::vector<NodeId> dropped = gate.nodes;
    dropped.push_back(mul);
    r_.Replace(i, std::move(gelu), dropped);
  }

  Rewriter r_;
};

}  // namespace

void NameActivations(Graph* graph) { Namer(graph).Run(); }

}  // namespace parallax::passes
