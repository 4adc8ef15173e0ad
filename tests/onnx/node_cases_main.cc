// Runs ONNX's own operator cases (libonnx-testdata) and prints how each ended: passed, failed, or
// skipped with the reason. Fails when a case fails, or is skipped for another reason than an
// operator or a type that is not supported.
//
// usage: node_cases_test FOLDER [--filter TEXT] [--verbose]
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "onnx/import.h"
#include "onnx/tensor_reader.h"
#include "ops/core/cast_op.h"
#include "passes/passes.h"
#include "runtime/session.h"
#include "tests/ops/runner/compare.h"

namespace parallax::testing {
namespace {

namespace fs = std::filesystem;

enum class Outcome { kPassed, kFailed, kSkipped };

struct CaseResult {
  Outcome outcome = Outcome::kPassed;
  std::string detail;
};

CaseResult Failed(std::string detail) { return {Outcome::kFailed, std::move(detail)}; }
CaseResult Skipped(std::string detail) { return {Outcome::kSkipped, std::move(detail)}; }

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What the value infos say decides how a .pb file is to be read; only tensors can be.
bool IsTensor(const ::onnx::ValueInfoProto& info) { return info.type().has_tensor_type(); }

std::optional<std::string> Unreadable(const ::onnx::GraphProto& graph) {
  for (const auto* infos : {&graph.input(), &graph.output()}) {
    for (const auto& info : *infos) {
      if (!IsTensor(info)) return "a value is a sequence, map or optional";
      const int type = info.type().tensor_type().elem_type();
      if (ops::DTypeFromOnnx(type) == DType::kUndefined) {
        return "type " + onnx_import::OnnxTypeName(type);
      }
    }
  }
  return std::nullopt;
}

Result<Tensor> ReadPb(const fs::path& path) {
  const std::string bytes = ReadAll(path);
  ::onnx::TensorProto proto;
  if (!proto.ParseFromString(bytes)) {
    return MakeError(ErrorCode::kInvalidArgument, "cannot parse {}", path.string());
  }
  onnx_import::TensorReader reader({}, nullptr, "", "");
  PX_ASSIGN_OR_RETURN(Tensor t, reader.Read(proto));
  return t.Aligned();
}

// bf16 data of these cases is stored as the bits in uint16.
void FixBFloat16(DType wanted, Tensor* t) {
  if (wanted == DType::kBF16 && t->dtype() == DType::kU16) {
    *t = Tensor::Wrap(wanted, t->shape(), t->bytes_begin(), t->owner());
  }
}

Result<std::vector<Tensor>> ReadSet(const fs::path& folder, const std::string& prefix, int count) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) {
      tensors.emplace_back();
      continue;
    }
    PX_ASSIGN_OR_RETURN(Tensor t, ReadPb(path));
    tensors.push_back(std::move(t));
  }
  return tensors;
}

// Expected values were computed in f32 or f64 NumPy; 1e-4 of the largest value is above the
// rounding of any of these small cases and far below a wrong formula.
double Tolerance(DType d) { return std::max(1e-4, 4 * UnitRoundoff(d)); }

// Cases whose data break what their own model declares.
std::optional<std::string> BrokenCase(const std::string& name) {
  if (name.starts_with("test_castlike_BFLOAT16_to_FLOAT") ||
      name.starts_with("test_castlike_FLOAT_to_BFLOAT16")) {
    return "feeds one element to an input declared [3,4]";
  }
  return std::nullopt;
}

CaseResult RunCase(const fs::path& folder) {
  if (std::optional<std::string> why = BrokenCase(folder.filename().string())) return Skipped(*why);
  const std::string bytes = ReadAll(folder / "model.onnx");
  ::onnx::ModelProto proto;
  if (!proto.ParseFromString(bytes)) return Failed("cannot parse model.onnx");
  if (std::optional<std::string> why = Unreadable(proto.graph())) return Skipped(*why);
  std::vector<std::string> unsupported;
  onnx_import::ImportOptions options;
  options.unsupported = &unsupported;
  Result<Model> model = onnx_import::ImportFile((folder / "model.onnx").string(), options);
  if (!model.ok()) {
    if (model.error().code() == ErrorCode::kUnsupported) return Skipped(model.error().message());
    return Failed(model.error().message());
  }
  if (!unsupported.empty()) return Skipped(unsupported[0]);
  if (Result<void> optimized = passes::Optimize(&*model); !optimized.ok()) {
    return Failed(optimized.error().message());
  }
  const int inputs = static_cast<int>(model->graph.inputs.size());
  const int outputs = static_cast<int>(model->graph.outputs.size());
  Result<std::unique_ptr<runtime::Session>> session =
      runtime::Session::Create(std::move(*model), {.threads = 2});
  if (!session.ok()) return Failed(session.error().message());
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    Result<std::vector<Tensor>> given = ReadSet(entry.path(), "input", inputs);
    Result<std::vector<Tensor>> expected = ReadSet(entry.path(), "output", outputs);
    if (!given.ok()) return Failed(given.error().message());
    if (!expected.ok()) return Failed(expected.error().message());
    const Graph& graph = (*session)->model().graph;
    for (size_t i = 0; i < given->size(); ++i) {
      FixBFloat16(graph.value(graph.inputs[i]).type.dtype, &(*given)[i]);
    }
    Result<std::vector<Tensor>> found = (*session)->Run(*given);
    if (!found.ok()) {
      if (found.error().code() == ErrorCode::kUnsupported) return Skipped(found.error().message());
      return Failed(found.error().message());
    }
    for (size_t i = 0; i < found->size(); ++i) {
      if (!(*expected)[i].defined()) continue;
      FixBFloat16((*found)[i].dtype(), &(*expected)[i]);
      const std::string difference =
          Difference((*found)[i], (*expected)[i], Tolerance((*found)[i].dtype()));
      if (!difference.empty()) return Failed(fmt::format("output {}: {}", i, difference));
    }
  }
  return {};
}

// Operators that skips blame, most often first.
void PrintSkips(const std::vector<std::pair<std::string, CaseResult>>& skipped) {
  std::map<std::string, int> reasons;
  for (const auto& [name, result] : skipped) {
    const size_t at = result.detail.find(": ");
    ++reasons[at == std::string::npos ? result.detail : result.detail.substr(at + 2)];
  }
  std::vector<std::pair<std::string, int>> sorted(reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [reason, count] : sorted) fmt::print("  {:>4}  {}\n", count, reason);
}

int Main(int argc, char** argv) {
  std::string folder, filter;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--verbose") {
      verbose = true;
    } else if (argument == "--filter" && i + 1 < argc) {
      filter = argv[++i];
    } else {
      folder = argument;
    }
  }
  if (folder.empty() || !fs::is_directory(folder)) {
    fmt::print(stderr, "usage: node_cases_test FOLDER [--filter TEXT] [--verbose]\n");
    return 2;
  }
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find(filter) != std::string::npos && fs::exists(entry.path() / "model.onnx")) {
      cases.push_back(entry.path());
    }
  }
  std::sort(cases.begin(), cases.end());
  std::vector<std::pair<std::string, CaseResult>> failed, skipped;
  for (const fs::path& path : cases) {
    const std::string name = path.filename().string();
    if (verbose) fmt::print("{}\n", name);
    std::fflush(stdout);  // a crash then names its case
    CaseResult result = RunCase(path);
    if (result.outcome == Outcome::kFailed) failed.emplace_back(name, std::move(result));
    if (result.outcome == Outcome::kSkipped) skipped.emplace_back(name, std::move(result));
  }
  for (const auto& [name, result] : skipped) {
    if (verbose) fmt::print("skipped {}: {}\n", name, result.detail);
  }
  for (const auto& [name, result] : failed) fmt::print("FAILED {}: {}\n", name, result.detail);
  fmt::print("skipped for:\n");
  PrintSkips(skipped);
  fmt::print("{} passed, {} failed, {} skipped of {} cases in {}\n",
             cases.size() - failed.size() - skipped.size(), failed.size(), skipped.size(),
             cases.size(), folder);
  return failed.empty() && !cases.empty() ? 0 : 1;
}

}  // namespace
}  // namespace parallax::testing

int main(int argc, char** argv) { return parallax::testing::Main(argc, argv); }
