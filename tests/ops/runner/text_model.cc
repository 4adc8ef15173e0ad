#include "tests/ops/runner/text_model.h"

#include <fstream>
#include <sstream>

#include <onnx/defs/parser.h>

#include "onnx/import.h"
#include "passes/passes.h"

namespace parallax::testing {

Result<std::string> ParseTextModel(const std::string& text) {
  ::onnx::ModelProto proto;
  ::onnx::OnnxParser parser(text.c_str());
  const ::onnx::Common::Status status = parser.Parse(proto);
  if (!status.IsOK()) return Error(ErrorCode::kInvalidArgument, status.ErrorMessage());
  return proto.SerializeAsString();
}

Result<Model> ImportText(const std::string& text) {
  PX_ASSIGN_OR_RETURN(std::string bytes, ParseTextModel(text));
  auto owner = std::make_shared<std::string>(std::move(bytes));
  PX_ASSIGN_OR_RETURN(
      Model model,
      onnx_import::ImportBytes(std::as_bytes(std::span(owner->data(), owner->size())), owner, {}));
  PX_RETURN_IF_ERROR(passes::Optimize(&model));
  return model;
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

}  // namespace parallax::testing
