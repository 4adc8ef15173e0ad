#include "ops/core/epilogue_op.h"

#include <cstring>
#include <limits>

namespace parallax::ops {
namespace {

using kernels::UnaryOp;

struct Entry {
  std::string_view name;
  UnaryOp op;
  // Names and defaults of the operator's own attributes, "" where it has none.
  std::string_view alpha = "";
  float alpha_default = 0;
  std::string_view beta = "";
  float beta_default = 0;
};

constexpr Entry kEntries[] = {
    {"Sigmoid", UnaryOp::kSigmoid},
    {"Tanh", UnaryOp::kTanh},
    {"Swish", UnaryOp::kSilu, "alpha", 1.0f},
    {"HardSwish", UnaryOp::kHardSwish},
    {"HardSigmoid", UnaryOp::kHardSigmoid, "alpha", 0.2f, "beta", 0.5f},
    {"LeakyRelu", UnaryOp::kLeakyRelu, "alpha", 0.01f},
    {"Elu", UnaryOp::kElu, "alpha", 1.0f},
    {"Mish", UnaryOp::kMish},
    {"Softplus", UnaryOp::kSoftplus},
    {"Gelu", UnaryOp::kGelu},
    {"GeluTanh", UnaryOp::kGeluTanh},
};

const Entry* FindEntry(std::string_view name) {
  for (const Entry& e : kEntries) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

// Clip's bound: an attribute before opset 11, a constant input since.
std::optional<float> BoundOf(const Graph& graph, const Node& node, std::string_view attribute,
                             size_t input, float none) {
  if (node.opset < 11) return node.attributes.Float(attribute, none);
  if (node.inputs.size() <= input || node.inputs[input] == kNoValue) return none;
  const Value& value = graph.value(node.inputs[input]);
  const Tensor& t = value.constant;
  if (value.origin != ValueOrigin::kConstant || t.dtype() != DType::kF32 || t.elements() != 1) {
    return std::nullopt;
  }
  float v = 0;
  std::memcpy(&v, t.bytes_begin(), sizeof v);  // a view of a file may be misaligned
  return v;
}

}  // namespace

std::vector<AttributeDef> EpilogueAttributes() {
  return {{.name = "activation", .type = AttributeType::kString},
          {.name = "activation_alpha", .type = AttributeType::kFloat},
          {.name = "activation_beta", .type = AttributeType::kFloat},
          {.name = "output_scale", .type = AttributeType::kFloat},
          {.name = "output_shift", .type = AttributeType::kFloat},
          {.name = "residual_last"}};
}

Result<kernels::Epilogue> ReadEpilogue(const NodeContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::Epilogue e,
                      MakeEpilogue(c.String("activation"), c.Float("activation_alpha", 0),
                                   c.Float("activation_beta", 0)));
  e.scale = c.Float("output_scale", 1);
  e.shift = c.Float("output_shift", 0);
  e.residual_last = c.Int("residual_last", 0) != 0;
  return e;
}

Result<kernels::Epilogue> MakeEpilogue(std::string_view name, float alpha, float beta) {
  kernels::Epilogue e;
  if (name.empty()) return e;
  if (name == "Relu") {
    e.activation = kernels::Activation::kRelu;
  } else if (name == "Clip") {
    e.activation = kernels::Activation::kClip;
    e.lo = alpha;
    e.hi = beta;
  } else if (const Entry* entry = FindEntry(name)) {
    e.activation = kernels::Activation::kUnary;
    e.op = entry->op;
    e.params = {.alpha = alpha, .beta = beta};
  } else {
    return Invalid("activation is '{}'", name);
  }
  return e;
}

std::optional<FusedActivation> ActivationOf(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return std::nullopt;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (node.op == "Relu") return FusedActivation{"Relu"};
  if (node.op == "Clip") {
    const std::optional<float> lo = BoundOf(graph, node, "min", 1, -kInfinity);
    const std::optional<float> hi = BoundOf(graph, node, "max", 2, kInfinity);
    if (!lo || !hi) return std::nullopt;
    return FusedActivation{"Clip", *lo, *hi};
  }
  if (node.op == "Gelu") {
    const bool tanh = node.attributes.String("approximate", "none") == "tanh";
    return FusedActivation{tanh ? "GeluTanh" : "Gelu"};
  }
  const Entry* e = FindEntry(node.op);
  if (e == nullptr || e->name == "GeluTanh") return std::nullopt;
  FusedActivation a{std::string(e->name)};
  if (!e->alpha.empty()) a.alpha = node.attributes.Float(e->alpha, e->alpha_default);
  if (!e->beta.empty()) a.beta = node.attributes.Float(e->beta, e->beta_default);
  return a;
}

void SetActivation(Node* fused, const FusedActivation& activation) {
  fused->attributes.Set("activation", activation.name);
  fused->attributes.Set("activation_alpha", activation.alpha);
  fused->attributes.Set("activation_beta", activation.beta);
}

}  // namespace parallax::ops
