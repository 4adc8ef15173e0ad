#include "onnx/graph_builder.h"

#include <algorithm>
#include <utility>

#include <onnx/onnx_pb.h>

#include "onnx/node_order.h"
#include "ops/core/cast_op.h"

namespace parallax::onnx_import {
namespace {

using ::onnx::AttributeProto;

// Far above any operator's: attributes are searched in order.
constexpr int kMaxAttributes = 256;

Error Bad(std::string message) { return Error(ErrorCode::kInvalidModel, std::move(message)); }

// Attribute kinds that files of IR version 1 do not state.
AttributeProto::AttributeType TypeOf(const AttributeProto& a) {
  if (a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.floats_size() > 0) return AttributeProto::FLOATS;
  if (a.ints_size() > 0) return AttributeProto::INTS;
  if (a.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

// Whether a tensor of that shape is one of that type, as far as the type says.
bool Fits(const TensorType& type, const Shape& shape) {
  if (!type.ranked) return true;
  if (type.rank() != shape.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim& d = type.dims[static_cast<size_t>(i)];
    if (d.known() && d.extent != shape[i]) return false;
  }
  return true;
}

std::string NodeLabel(const ::onnx::NodeProto& proto) {
  const std::string name = proto.name().empty() && proto.output_size() > 0
                               ? "producing '" + proto.output(0) + "'"
                               : "'" + proto.name() + "'";
  return fmt::format("node {} ({})", name, proto.op_type());
}

}  // namespace

Result<Graph> GraphBuilder::Build(const ::onnx::GraphProto& proto) {
  return BuildGraph(proto, nullptr, nullptr);
}

Result<Graph> GraphBuilder::BuildGraph(const ::onnx::GraphProto& proto, Scope* outer,
                                       std::vector<std::string>* captured) {
  Graph graph;
  graph.name = proto.name();
  Scope scope;
  scope.graph = &graph;
  scope.outer = outer;
  std::map<std::string, Tensor> constants;
  PX_RETURN_IF_ERROR(AddInitializers(proto, &scope, &constants));
  PX_RETURN_IF_ERROR(AddInputs(proto, &scope, &constants));
  PX_ASSIGN_OR_RETURN(std::vector<int> order, OrderNodes(proto));
  for (int i : order) {
    Result<void> added = AddNode(proto.node(i), &scope);
    if (!added.ok()) return added.error().WithContext(NodeLabel(proto.node(i)));
  }
  PX_RETURN_IF_ERROR(AddOutputs(proto, &scope));
  if (captured != nullptr) *captured = std::move(scope.captured);
  return graph;
}

Result<void> GraphBuilder::AddInitializers(const ::onnx::GraphProto& proto, Scope* scope,
                                           std::map<std::string, Tensor>* constants) {
  const auto add = [&](const std::string& name, Tensor tensor) -> Result<void> {
    if (name.empty()) return Bad("an initializer has no name");
    if (!constants->emplace(name, std::move(tensor)).second) {
      return Bad(fmt::format("two initializers are named '{}'", name));
    }
    return {};
  };
  for (const auto& t : proto.initializer()) {
    PX_ASSIGN_OR_RETURN(Tensor tensor, tensors_->Read(t));
    PX_RETURN_IF_ERROR(add(t.name(), std::move(tensor)));
  }
  for (const auto& t : proto.sparse_initializer()) {
    PX_ASSIGN_OR_RETURN(Tensor tensor, tensors_->ReadSparse(t));
    PX_RETURN_IF_ERROR(add(t.values().name(), std::move(tensor)));
  }
  // Before IR version 4 every initializer had to be listed as an input and none was meant to be
  // fed; from 4 on, one that is listed is a default the caller may replace.
  std::vector<std::string> listed;
  if (scope->outer == nullptr && model_->ir_version >= 4) {
    for (const auto& input : proto.input()) listed.push_back(input.name());
  }
  std::sort(listed.begin(), listed.end());
  for (auto it = constants->begin(); it != constants->end();) {
    if (std::binary_search(listed.begin(), listed.end(), it->first)) {
      ++it;
      continue;
    }
    Value value;
    value.origin = ValueOrigin::kConstant;
    value.type = TensorType::Of(it->second.dtype(), it->second.shape());
    value.constant = it->second;
    PX_RETURN_IF_ERROR(Define(scope, it->first, std::move(value)));
    it = constants->erase(it);
  }
  return {};
}

Result<void> GraphBuilder::AddInputs(const ::onnx::GraphProto& proto, Scope* scope,
                                     std::map<std::string, Tensor>* constants) {
  for (const auto& input : proto.input()) {
    if (auto it = scope->names.find(input.name());
        it != scope->names.end() &&
        scope->graph->value(it->second).origin == ValueOrigin::kConstant) {
      continue;  // an old file's initializer, listed as an input by rule
    }
    Value value;
    value.origin = ValueOrigin::kInput;
    if (input.has_type() || scope->outer == nullptr) {
      PX_ASSIGN_OR_RETURN(value.type, ReadType(input));
    }
    if (auto it = constants->find(input.name()); it != constants->end()) {
      value.constant = it->second;
      if (value.constant.dtype() != value.type.dtype) {
        return Bad(fmt::format("input '{}' is {}, its initializer is {}", input.name(),
                               Name(value.type.dtype), Name(value.constant.dtype())));
      }
      if (!Fits(value.type, value.constant.shape())) {
        return Bad(fmt::format("input '{}' is declared as {}, its initializer has shape {}",
                               input.name(), ToString(value.type, model_->symbols),
                               value.constant.shape().ToString()));
      }
    }
    PX_ASSIGN_OR_RETURN(ValueId id, Define(scope, input.name(), std::move(value)));
    scope->graph->inputs.push_back(id);
  }
  return {};
}

Result<void> GraphBuilder::AddOutputs(const ::onnx::GraphProto& proto, Scope* scope) {
  for (const auto& output : proto.output()) {
    const ValueId id = Resolve(scope, output.name());
    if (id == kNoValue) {
      return Bad(
          fmt::format("graph '{}': nothing produces the output '{}'", proto.name(), output.name()));
    }
    scope->graph->outputs.push_back(id);
    scope->graph->output_names.push_back(output.name());
    if (scope->outer != nullptr) continue;
    // Only told to people: a declaration that makes no sense is left out, not an error.
    Result<TensorType> declared = ReadType(output);
    model_->output_types.push_back(declared.ok() ? std::move(*declared) : TensorType());
  }
  if (proto.output_size() == 0 && scope->outer == nullptr) {
    return Bad(fmt::format("graph '{}' has no outputs", proto.name()));
  }
  return {};
}

Result<void> GraphBuilder::AddNode(const ::onnx::NodeProto& proto, Scope* scope) {
  const std::string domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  if (domain.empty() && proto.op_type() == "Constant") return AddConstantNode(proto, scope);
  if (proto.attribute_size() > kMaxAttributes) {
    return Bad(
        fmt::format("has {} attributes, more than {}", proto.attribute_size(), kMaxAttributes));
  }
  Node node;
  node.name = proto.name();
  node.op = proto.op_type();
  node.domain = domain;
  if (auto it = model_->opsets.find(domain); it != model_->opsets.end()) node.opset = it->second;
  for (const std::string& name : proto.input()) {
    const ValueId id = name.empty() ? kNoValue : Resolve(scope, name);
    if (id == kNoValue && !name.empty()) {
      return Bad(fmt::format("reads '{}', which nothing produces", name));
    }
    node.inputs.push_back(id);
  }
  node.explicit_inputs = static_cast<int>(node.inputs.size());
  for (const auto& attribute : proto.attribute()) {
    PX_RETURN_IF_ERROR(SetAttribute(attribute, scope, &node));
  }
  const NodeId id = static_cast<NodeId>(scope->graph->nodes.size());
  for (const std::string& name : proto.output()) {
    if (name.empty()) {
      node.outputs.push_back(kNoValue);
      continue;
    }
    Value value;
    value.producer = id;
    PX_ASSIGN_OR_RETURN(ValueId v, Define(scope, name, std::move(value)));
    node.outputs.push_back(v);
  }
  scope->graph->nodes.push_back(std::move(node));
  return {};
}

Result<void> GraphBuilder::AddConstantNode(const ::onnx::NodeProto& proto, Scope* scope) {
  if (proto.attribute_size() != 1 || proto.output_size() != 1 || proto.input_size() != 0) {
    return Bad("should have one attribute, one output and no inputs");
  }
  const AttributeProto& a = proto.attribute(0);
  Result<Tensor> tensor = Bad(fmt::format("attribute '{}' is not a tensor value", a.name()));
  const auto vector_shape = [](int n) { return Shape{static_cast<int64_t>(n)}; };
  if (a.name() == "value" && a.has_t()) {
    tensor = tensors_->Read(a.t());
  } else if (a.name() == "sparse_value" && a.has_sparse_tensor()) {
    tensor = tensors_->ReadSparse(a.sparse_tensor());
  } else if (a.name() == "value_float") {
    const float v = a.f();
    tensor = Tensor::From<float>(Shape{}, {&v, 1});
  } else if (a.name() == "value_int") {
    const int64_t v = a.i();
    tensor = Tensor::From<int64_t>(Shape{}, {&v, 1});
  } else if (a.name() == "value_floats") {
    tensor = Tensor::From<float>(vector_shape(a.floats_size()),
                                 {a.floats().data(), static_cast<size_t>(a.floats_size())});
  } else if (a.name() == "value_ints") {
    tensor = Tensor::From<int64_t>(vector_shape(a.ints_size()),
                                   {a.ints().data(), static_cast<size_t>(a.ints_size())});
  } else if (a.name() == "value_string" || a.name() == "value_strings") {
    tensor = MakeError(ErrorCode::kUnsupported, "string constants are not supported");
  }
  if (!tensor.ok()) return tensor.error();
  Value value;
  value.origin = ValueOrigin::kConstant;
  value.type = TensorType::Of(tensor->dtype(), tensor->shape());
  value.constant = std::move(*tensor);
  Result<ValueId> id = Define(scope, proto.output(0), std::move(value));
  if (!id.ok()) return id.error();
  return {};
}

Result<void> GraphBuilder::SetAttribute(const AttributeProto& a, Scope* scope, Node* node) {
  const std::string& name = a.name();
  if (node->attributes.Has(name) || node->Body(name) != nullptr) {
    return Bad(fmt::format("attribute '{}' appears twice", name));
  }
  if (!a.ref_attr_name().empty()) {
    return Bad(
        fmt::format("attribute '{}' refers to a function's parameter, outside a function", name));
  }
  switch (TypeOf(a)) {
    case AttributeProto::INT:
      node->attributes.Set(name, int64_t{a.i()});
      return {};
    case AttributeProto::FLOAT:
      node->attributes.Set(name, a.f());
      return {};
    case AttributeProto::STRING:
      node->attributes.Set(name, a.s());
      return {};
    case AttributeProto::INTS:
      node->attributes.Set(name, std::vector<int64_t>(a.ints().begin(), a.ints().end()));
      return {};
    case AttributeProto::FLOATS:
      node->attributes.Set(name, std::vector<float>(a.floats().begin(), a.floats().end()));
      return {};
    case AttributeProto::STRINGS:
      node->attributes.Set(name, std::vector<std::string>(a.strings().begin(), a.strings().end()));
      return {};
    case AttributeProto::TENSOR: {
      PX_ASSIGN_OR_RETURN(Tensor t, tensors_->Read(a.t()));
      node->attributes.Set(name, std::move(t));
      return {};
    }
    case AttributeProto::GRAPH: {
      std::vector<std::string> captured;
      PX_ASSIGN_OR_RETURN(Graph body, BuildGraph(a.g(), scope, &captured));
      // The body's captures become the node's last inputs, in the same order.
      for (const std::string& outer_name : captured) {
        node->inputs.push_back(Resolve(scope, outer_name));
      }
      node->subgraphs.push_back({name, std::make_unique<Graph>(std::move(body))});
      return {};
    }
    default:
      break;
  }
  return MakeError(ErrorCode::kUnsupported, "attribute '{}' has a kind that is not supported",
                   name);
}

Result<ValueId> GraphBuilder::Define(Scope* scope, const std::string& name, Value value) {
  if (name.empty())
    return Bad(fmt::format("a value of graph '{}' has no name", scope->graph->name));
  const ValueId id = static_cast<ValueId>(scope->graph->values.size());
  if (!scope->names.emplace(name, id).second) {
    return Bad(fmt::format("the name '{}' is defined twice", name));
  }
  value.name = name;
  return scope->graph->AddValue(std::move(value));
}

ValueId GraphBuilder::Resolve(Scope* scope, const std::string& name) {
  if (auto it = scope->names.find(name); it != scope->names.end()) return it->second;
  if (scope->outer == nullptr) return kNoValue;
  const ValueId outer = Resolve(scope->outer, name);
  if (outer == kNoValue) return kNoValue;
  // Constants of enclosing graphs are shared as constants, so that bodies can fold and pack them.
  const Value& source = scope->outer->graph->value(outer);
  Value value;
  value.name = name;
  value.type = source.type;
  if (source.origin == ValueOrigin::kConstant) {
    value.origin = ValueOrigin::kConstant;
    value.constant = source.constant;
  } else {
    value.origin = ValueOrigin::kCapture;
  }
  const bool capture = value.origin == ValueOrigin::kCapture;
  const ValueId id = scope->graph->AddValue(std::move(value));
  scope->names.emplace(name, id);
  if (capture) {
    scope->graph->captures.push_back(id);
    scope->captured.push_back(name);
  }
  return id;
}

Result<TensorType> GraphBuilder::ReadType(const ::onnx::ValueInfoProto& proto) {
  if (!proto.type().has_tensor_type()) {
    return MakeError(ErrorCode::kUnsupported, "input '{}' is not a tensor", proto.name());
  }
  const auto& tensor = proto.type().tensor_type();
  TensorType type;
  type.dtype = ops::DTypeFromOnnx(tensor.elem_type());
  if (type.dtype == DType::kUndefined) {
    return MakeError(ErrorCode::kUnsupported, "input '{}' is of {}, which is not supported",
                     proto.name(), OnnxTypeName(tensor.elem_type()));
  }
  type.ranked = tensor.has_shape();
  std::vector<int64_t> known;
  for (const auto& d : tensor.shape().dim()) {
    Dim dim;
    if (d.has_dim_value() && d.dim_value() != -1) {  // some exporters write -1 for "any"
      dim = Dim(d.dim_value());
      known.push_back(d.dim_value());
    } else if (!d.dim_param().empty()) {
      dim = Dim::Symbol(model_->symbols.Intern(d.dim_param()));
    }
    type.dims.push_back(dim);
  }
  Result<Shape> checked = Shape::Make(known);
  if (!checked.ok()) {
    return checked.error().WithContext(fmt::format("input '{}'", proto.name()));
  }
  if (type.dims.size() > static_cast<size_t>(kMaxRank)) {
    return MakeError(ErrorCode::kUnsupported, "input '{}' has rank {}, above the limit of {}",
                     proto.name(), type.dims.size(), kMaxRank);
  }
  return type;
}

}  // namespace parallax::onnx_import
