#include "tests/ops/runner/text_model.h"

#include <fstream>
#include <sstream>

#include <onnx/defs/parser.h>

#include "onnx/import.h"
#include "passes/passes.h"

namespace parallax::testing {
namespace {

// Gives zeros to the tensors that models/materialize.py would fill: those marked in doc_string.
void FillWithZeros(::onnx::TensorProto* tensor) {
  if (tensor->doc_string().empty()) return;
  size_t elements = 1;
  for (int64_t d : tensor->dims()) elements *= static_cast<size_t>(d);
  tensor->set_raw_data(std::string(elements * sizeof(float), '\0'));
}

void FillWithZeros(::onnx::GraphProto* graph) {
  for (::onnx::TensorProto& t : *graph->mutable_initializer()) FillWithZeros(&t);
  for (::onnx::NodeProto& n : *graph->mutable_node()) {
    for (::onnx::AttributeProto& a : *n.mutable_attribute()) {
      if (a.has_t()) FillWithZeros(a.mutable_t());
      if (a.has_g()) FillWithZeros(a.mutable_g());
    }
  }
}

Result<Model> ImportProto(const ::onnx::ModelProto& proto) {
  auto owner = std::make_shared<std::string>(proto.SerializeAsString());
  PX_ASSIGN_OR_RETURN(
      Model model,
      onnx_import::ImportBytes(std::as_bytes(std::span(owner->data(), owner->size())), owner, {}));
  PX_RETURN_IF_ERROR(passes::Optimize(&model));
  return model;
}

}  // namespace

Result<std::string> ParseTextModel(const std::string& text) {
  ::onnx::ModelProto proto;
  ::onnx::OnnxParser parser(text.c_str());
  const ::onnx::Common::Status status = parser.Parse(proto);
  if (!status.IsOK()) return Error(ErrorCode::kInvalidArgument, status.ErrorMessage());
  return proto.SerializeAsString();
}

Result<Model> ImportText(const std::string& text) {
  PX_ASSIGN_OR_RETURN(std::string bytes, ParseTextModel(text));
  ::onnx::ModelProto proto;
  if (!proto.ParseFromString(bytes)) return Error(ErrorCode::kInvalidArgument, "not a model");
  return ImportProto(proto);
}

Result<Model> ImportTextFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return MakeError(ErrorCode::kNotFound, "cannot open {}", path);
  std::stringstream text;
  text << file.rdbuf();
  Result<Model> model = ImportText(text.str());
  if (!model.ok()) return model.error().WithContext(path);
  return model;
}

Result<Model> ImportModelFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ::onnx::ModelProto proto;
  if (!file || !proto.ParseFromIstream(&file)) {
    return MakeError(ErrorCode::kNotFound, "no model in {}", path);
  }
  FillWithZeros(proto.mutable_graph());
  Result<Model> model = ImportProto(proto);
  if (!model.ok()) return model.error().WithContext(path);
  return model;
}

}  // namespace parallax::testing
