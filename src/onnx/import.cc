#include "onnx/import.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include "onnx/graph_builder.h"
#include "onnx/mapped_file.h"
#include "onnx/skeleton.h"
#include "onnx/tensor_reader.h"
#include "ops/core/inference.h"
#include "ops/core/table.h"

namespace parallax::onnx_import {
namespace {

Result<void> ReadOpsets(const ::onnx::ModelProto& proto, Model* model) {
  for (const auto& import : proto.opset_import()) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    if (import.version() < 1 || import.version() > 1'000'000) {
      return MakeError(ErrorCode::kInvalidModel, "opset {} of domain '{}' is not a version",
                       import.version(), domain);
    }
    model->opsets[domain] = static_cast<int>(import.version());
  }
  auto it = model->opsets.find("");
  if (it != model->opsets.end() && (it->second < ops::kMinOpset || it->second > ops::kMaxOpset)) {
    return MakeError(ErrorCode::kUnsupported, "the model uses opset {}; supported are {} to {}",
                     it->second, ops::kMinOpset, ops::kMaxOpset);
  }
  return {};
}

// Lists nodes without an implementation, bodies included.
void ListUnsupported(const Graph& graph, std::vector<std::string>* list) {
  for (const Node& n : graph.nodes) {
    if (ops::FindOp(n.domain, n.op, n.opset) == nullptr) {
      list->push_back(fmt::format(
          "node {}: {}::{} ({}){}", n.Label(graph), n.domain.empty() ? "ai.onnx" : n.domain, n.op,
          n.opset > 0 ? fmt::format("opset {}", n.opset) : "no opset imported",
          ops::IsKnownOp(n.domain, n.op) ? ", not in this opset" : ""));
    }
    for (const Subgraph& s : n.subgraphs) ListUnsupported(*s.graph, list);
  }
}

Result<void> InferTypes(Graph* graph) {
  PX_ASSIGN_OR_RETURN(ops::Inference inference,
                      ops::InferGraph(*graph, ops::DeclaredInputs(*graph)));
  for (size_t v = 0; v < graph->values.size(); ++v) {
    graph->values[v].type = std::move(inference.types[v]);
  }
  return {};
}

// Fills Model::output_types, which hold the declarations until now.
void MergeOutputTypes(Model* model) {
  for (size_t i = 0; i < model->output_types.size(); ++i) {
    TensorType& type = model->output_types[i];
    const TensorType& known = model->graph.value(model->graph.outputs[i]).type;
    if (known.dtype != DType::kUndefined) type.dtype = known.dtype;
    if (!known.ranked) continue;
    if (type.rank() != known.rank()) type.dims.assign(known.dims.size(), Dim());
    type.ranked = true;
    for (size_t d = 0; d < known.dims.size(); ++d) {
      if (known.dims[d].known() || known.dims[d].symbol != 0) type.dims[d] = known.dims[d];
    }
  }
}

Result<Model> Build(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                    const std::string& path, const ImportOptions& options) {
  PX_ASSIGN_OR_RETURN(std::string skeleton, MakeSkeleton(bytes));
  ::onnx::ModelProto proto;
  google::protobuf::LogSilencer silence;  // this room reports errors, protobuf must not print them
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(skeleton.data()),
                                                static_cast<int>(skeleton.size()));
  if (skeleton.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return MakeError(ErrorCode::kInvalidModel, "not a readable ONNX model: protobuf refuses it");
  }
  skeleton.clear();
  skeleton.shrink_to_fit();
  if (!proto.has_graph() || proto.opset_import_size() == 0) {
    return MakeError(ErrorCode::kInvalidModel, "not an ONNX model: it has no {}",
                     proto.has_graph() ? "opset_import" : "graph");
  }
  Model model;
  model.ir_version = proto.ir_version();
  model.producer = proto.producer_name();
  model.file_bytes = bytes.size();
  for (const auto& entry : proto.metadata_props()) model.metadata[entry.key()] = entry.value();
  PX_RETURN_IF_ERROR(ReadOpsets(proto, &model));
  TensorReader tensors(bytes, std::move(owner), path, options.allow_external);
  GraphBuilder builder(&model, &tensors);
  PX_ASSIGN_OR_RETURN(model.graph, builder.Build(proto.graph()));

  std::vector<std::string> unsupported;
  ListUnsupported(model.graph, &unsupported);
  if (!unsupported.empty()) {
    if (options.unsupported == nullptr) {
      return MakeError(ErrorCode::kUnsupported,
                       "{} node(s) use operators that are not supported:\n  {}", unsupported.size(),
                       fmt::join(unsupported, "\n  "));
    }
    *options.unsupported = std::move(unsupported);
    MergeOutputTypes(&model);
    return model;
  }
  PX_RETURN_IF_ERROR(model.graph.Verify());
  PX_RETURN_IF_ERROR(InferTypes(&model.graph));
  MergeOutputTypes(&model);
  return model;
}

// Standard-library containers throw when memory runs out; nothing thrown leaves this room.
Result<Model> BuildGuarded(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                           const std::string& path, const ImportOptions& options) {
  try {
    return Build(bytes, std::move(owner), path, options);
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorCode::kOutOfMemory, "not enough memory to load a model of {} bytes",
                     bytes.size());
  } catch (const std::length_error&) {
    return MakeError(ErrorCode::kOutOfMemory, "not enough memory to load a model of {} bytes",
                     bytes.size());
  }
}

}  // namespace

Result<Model> ImportFile(const std::string& path, const ImportOptions& options) {
  PX_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  Result<Model> model = BuildGuarded(file->bytes(), file, path, options);
  if (!model.ok()) return model.error().WithContext(path);
  return model;
}

Result<Model> ImportBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          const ImportOptions& options) {
  return BuildGuarded(bytes, std::move(owner), "", options);
}

}  // namespace parallax::onnx_import
