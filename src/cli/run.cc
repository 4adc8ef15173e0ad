// parallax run: computes a model's outputs from given or random inputs.
#include <cmath>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/npz.h"
#include "runtime/session.h"
#include "threads/team.h"

namespace parallax::cli {
namespace {

struct RunArguments {
  ModelOptions model;
  InputOptions inputs;
  std::string outputs;
  int threads = 0;
  bool json = false;
};

struct Summary {
  double min = 0, mean = 0, max = 0;
  int64_t nan = 0;
};

Summary Summarize(const Tensor& t) {
  Summary s;
  s.min = INFINITY;
  s.max = -INFINITY;
  double sum = 0;
  DispatchType(t.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double v = static_cast<double>(t.data<T>()[i]);
      if (std::isnan(v)) {
        ++s.nan;
        continue;
      }
      s.min = std::min(s.min, v);
      s.max = std::max(s.max, v);
      sum += v;
    }
  });
  s.mean = sum / static_cast<double>(std::max<int64_t>(t.elements() - s.nan, 1));
  return s;
}

void PrintOutputs(const Graph& graph, const std::vector<Tensor>& outputs, double ms) {
  fmt::print("{:<32} {:<24} {:>12} {:>12} {:>12}\n", "output", "type", "min", "mean", "max");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string type =
        fmt::format("{}{}", Name(outputs[i].dtype()), outputs[i].shape().ToString());
    if (outputs[i].elements() == 0) {
      fmt::print("{:<32} {:<24} {:>12}\n", graph.output_names[i], type, "empty");
      continue;
    }
    const Summary s = Summarize(outputs[i]);
    fmt::print("{:<32} {:<24} {:>12.6g} {:>12.6g} {:>12.6g}{}\n", graph.output_names[i], type,
               s.min, s.mean, s.max, s.nan > 0 ? fmt::format("  ({} NaN)", s.nan) : "");
  }
  fmt::print("\nran in {:.2f} ms (first run, planning included)\n", ms);
}

void PrintJson(const RunArguments& args, const Graph& graph, const std::vector<Tensor>& outputs,
               double ms) {
  nlohmann::ordered_json json;
  json["model"] = args.model.path;
  json["run_ms"] = ms;
  json["outputs"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    nlohmann::ordered_json o;
    o["name"] = graph.output_names[i];
    o["dtype"] = Name(outputs[i].dtype());
    o["shape"] =
        std::vector<int64_t>(outputs[i].shape().dims().begin(), outputs[i].shape().dims().end());
    if (outputs[i].elements() > 0) {
      const Summary s = Summarize(outputs[i]);
      o["min"] = s.min;
      o["mean"] = s.mean;
      o["max"] = s.max;
      o["nan"] = s.nan;
    }
    json["outputs"].push_back(std::move(o));
  }
  if (!args.outputs.empty()) json["written"] = args.outputs;
  fmt::print("{}\n", json.dump(2));
}

Result<void> Run(const RunArguments& args) {
  PX_ASSIGN_OR_RETURN(Model model, LoadModel(args.model));
  PX_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, MakeInputs(model, args.inputs, std::nullopt));
  runtime::SessionOptions options;
  options.threads = args.threads > 0 ? args.threads : UsableCpus();
  PX_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Session> session,
                      runtime::Session::Create(std::move(model), options));
  const double start = NowMilliseconds();
  PX_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, session->Run(inputs));
  const double ms = NowMilliseconds() - start;
  const Graph& graph = session->model().graph;
  if (!args.outputs.empty()) {
    std::vector<std::pair<std::string, Tensor>> arrays;
    for (size_t i = 0; i < outputs.size(); ++i) {
      arrays.emplace_back(graph.output_names[i], outputs[i]);
    }
    PX_RETURN_IF_ERROR(WriteNpz(args.outputs, arrays));
  }
  if (args.json) {
    PrintJson(args, graph, outputs, ms);
  } else {
    PrintOutputs(graph, outputs, ms);
  }
  return {};
}

}  // namespace

void AddRunCommand(CLI::App* app, int* exit_code) {
  auto args = std::make_shared<RunArguments>();
  CLI::App* command = app->add_subcommand("run", "Compute a model's outputs");
  AddModelOptions(command, &args->model);
  AddInputOptions(command, &args->inputs);
  command->add_option("--outputs", args->outputs, "Write the outputs to an .npz file, by name")
      ->type_name("FILE");
  command->add_option("--threads", args->threads, "Threads (default: the CPUs of this process)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", args->json, "Print JSON");
  command->callback([args, exit_code] {
    Result<void> result = Run(*args);
    if (!result.ok()) *exit_code = Report(result.error());
  });
}

}  // namespace parallax::cli
