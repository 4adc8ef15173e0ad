// Writes operator cases as ONNX models with inputs and this library's outputs, in the layout of
// ONNX's own node cases, so that another runtime can judge them (check_with_ort.py).
//
// usage: export_cases CASES_FOLDER OUT_FOLDER
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "ops/core/evaluate.h"
#include "tests/ops/runner/op_case.h"

namespace parallax::testing {
namespace {

namespace fs = std::filesystem;
using ::onnx::AttributeProto;
using ::onnx::TensorProto;

int ToOnnxType(DType d) {
  switch (d) {
    case DType::kF32:
      return TensorProto::FLOAT;
    case DType::kF64:
      return TensorProto::DOUBLE;
    case DType::kF16:
      return TensorProto::FLOAT16;
    case DType::kBF16:
      return TensorProto::BFLOAT16;
    case DType::kI8:
      return TensorProto::INT8;
    case DType::kU8:
      return TensorProto::UINT8;
    case DType::kI16:
      return TensorProto::INT16;
    case DType::kU16:
      return TensorProto::UINT16;
    case DType::kI32:
      return TensorProto::INT32;
    case DType::kU32:
      return TensorProto::UINT32;
    case DType::kI64:
      return TensorProto::INT64;
    case DType::kU64:
      return TensorProto::UINT64;
    case DType::kBool:
      return TensorProto::BOOL;
    case DType::kUndefined:
    case DType::kString:
      break;
  }
  return TensorProto::UNDEFINED;
}

void ToProto(const Tensor& t, const std::string& name, TensorProto* proto) {
  proto->set_name(name);
  proto->set_data_type(ToOnnxType(t.dtype()));
  for (int64_t d : t.shape().dims()) proto->add_dims(d);
  proto->set_raw_data(t.bytes_begin(), t.bytes());
}

void AddAttribute(const Attributes::Entry& e, ::onnx::NodeProto* node) {
  AttributeProto* a = node->add_attribute();
  a->set_name(e.name);
  if (const auto* i = std::get_if<int64_t>(&e.value)) {
    a->set_type(AttributeProto::INT);
    a->set_i(*i);
  } else if (const auto* f = std::get_if<float>(&e.value)) {
    a->set_type(AttributeProto::FLOAT);
    a->set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&e.value)) {
    a->set_type(AttributeProto::STRING);
    a->set_s(*s);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&e.value)) {
    a->set_type(AttributeProto::INTS);
    for (int64_t v : *ints) a->add_ints(v);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&e.value)) {
    a->set_type(AttributeProto::FLOATS);
    for (float v : *floats) a->add_floats(v);
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&e.value)) {
    a->set_type(AttributeProto::STRINGS);
    for (const std::string& v : *strings) a->add_strings(v);
  } else if (const auto* t = std::get_if<Tensor>(&e.value)) {
    a->set_type(AttributeProto::TENSOR);
    ToProto(*t, e.name, a->mutable_t());
  }
}

void AddInfo(const Tensor& t, const std::string& name, ::onnx::ValueInfoProto* info) {
  info->set_name(name);
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(ToOnnxType(t.dtype()));
  type->mutable_shape();
  for (int64_t d : t.shape().dims()) type->mutable_shape()->add_dim()->set_dim_value(d);
}

template <class Proto>
void Write(const fs::path& path, const Proto& proto) {
  std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
}

Result<void> Export(const OpCase& c, const fs::path& folder) {
  const Graph graph = CaseGraph(c, 0);
  std::vector<const Tensor*> inputs;
  for (const CaseTensor& t : c.inputs) inputs.push_back(t.present ? &t.values : nullptr);
  Team team(1);
  PX_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                      ops::Evaluate(graph, graph.nodes[0], inputs, team));
  ::onnx::ModelProto model;
  model.set_ir_version(10);
  auto* opset = model.add_opset_import();
  opset->set_domain(c.domain);
  opset->set_version(c.opset);
  auto* g = model.mutable_graph();
  g->set_name("case");
  auto* node = g->add_node();
  node->set_op_type(c.op);
  node->set_domain(c.domain);
  for (const Attributes::Entry& e : c.attributes.entries()) AddAttribute(e, node);
  fs::create_directories(folder);
  int count = 0;
  for (const CaseTensor& t : c.inputs) {
    node->add_input(t.present ? t.name : "");
    if (!t.present) continue;
    AddInfo(t.values, t.name, g->add_input());
    TensorProto proto;
    ToProto(t.values, t.name, &proto);
    Write(folder / fmt::format("input_{}.pb", count++), proto);
  }
  count = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = outputs[i].defined() ? fmt::format("out{}", i) : "";
    node->add_output(name);
    if (name.empty()) continue;
    AddInfo(outputs[i], name, g->add_output());
    TensorProto proto;
    ToProto(outputs[i], name, &proto);
    Write(folder / fmt::format("output_{}.pb", count++), proto);
  }
  Write(folder / "model.onnx", model);
  std::ofstream(folder / "case.txt") << c.text << "\n" << c.tolerance.value_or(0) << "\n";
  return {};
}

int Main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: export_cases CASES_FOLDER OUT_FOLDER\n");
    return 2;
  }
  fs::remove_all(argv[2]);
  int written = 0;
  for (const auto& entry : fs::directory_iterator(argv[1])) {
    if (entry.path().extension() != ".cases") continue;
    Result<std::vector<OpCase>> cases = ReadCases(entry.path().string());
    if (!cases.ok()) {
      fmt::print(stderr, "{}\n", cases.error().message());
      return 1;
    }
    for (const OpCase& c : *cases) {
      if (c.expect_error || !c.ort || c.bench || !c.model.empty()) continue;
      const fs::path folder =
          fs::path(argv[2]) / fmt::format("{}_{}", entry.path().stem().string(), c.line);
      if (Result<void> r = Export(c, folder); !r.ok()) {
        fmt::print(stderr, "{}: {}\n", c.Where(), r.error().message());
        return 1;
      }
      ++written;
    }
  }
  fmt::print("{} cases written\n", written);
  return written > 0 ? 0 : 1;
}

}  // namespace
}  // namespace parallax::testing

int main(int argc, char** argv) { return parallax::testing::Main(argc, argv); }
