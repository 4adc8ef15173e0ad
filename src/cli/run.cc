// parallax run: computes a model's outputs from given or random inputs.
#include <cmath>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/command.h"
#include "cli/human.h"
#include "cli/inputs.h"
#include "cli/npz.h"

namespace parallax::cli {
namespace {

struct RunArguments {
  ModelOptions model;
  InputOptions inputs;
  std::string outputs;
  SessionArguments session;
  bool json = false;
};

// Of the elements that are numbers; all NaN where none is.
struct Summary {
  double min = NAN, mean = NAN, max = NAN;
  int64_t nan = 0;
};

Summary Summarize(const Tensor& t) {
  Summary s;
  // Wider than double where the machine has it: a sum of finite doubles may overflow one.
  long double sum = 0;
  DispatchType(t.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double v = static_cast<double>(t.data<T>()[i]);
      if (std::isnan(v)) {
        ++s.nan;
        continue;
      }
      s.min = std::fmin(s.min, v);
      s.max = std::fmax(s.max, v);
      sum += static_cast<long double>(v);
    }
  });
  const int64_t numbers = t.elements() - s.nan;
  if (numbers > 0) s.mean = static_cast<double>(sum / static_cast<long double>(numbers));
  return s;
}

void PrintOutputs(const Graph& graph, const std::vector<Tensor>& outputs, double ms) {
  std::vector<std::string> types;
  for (const Tensor& t : outputs) {
    types.push_back(fmt::format("{}{}", Name(t.dtype()), t.shape().ToString()));
  }
  const int name_width = ColumnWidth(32, graph.output_names), type_width = ColumnWidth(24, types);
  Print("{:<{}} {:<{}} {:>12} {:>12} {:>12}\n", "output", name_width, "type", type_width, "min",
        "mean", "max");
  for (size_t i = 0; i < outputs.size(); ++i) {
    Print("{:<{}} {:<{}}", graph.output_names[i], name_width, types[i], type_width);
    if (outputs[i].elements() == 0) {
      Print(" {:>12}\n", "empty");
      continue;
    }
    const Summary s = Summarize(outputs[i]);
    Print(" {:>12.6g} {:>12.6g} {:>12.6g}{}\n", s.min, s.mean, s.max,
          s.nan > 0 ? fmt::format("  ({} NaN)", s.nan) : "");
  }
  Print("\nran in {} (first run, planning included)\n", HumanMilliseconds(ms));
}

// JSON has no such numbers: "nan", "inf" and "-inf" stand for them, null would mean "not known".
nlohmann::ordered_json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
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
      o["min"] = Number(s.min);
      o["mean"] = Number(s.mean);
      o["max"] = Number(s.max);
      o["nan"] = s.nan;
    }
    json["outputs"].push_back(std::move(o));
  }
  if (!args.outputs.empty()) json["written"] = args.outputs;
  fmt::print("{}\n", DumpJson(json, 2));
}

Result<void> Run(const RunArguments& args) {
  PX_ASSIGN_OR_RETURN(Model model, LoadModel(args.model));
  PX_ASSIGN_OR_RETURN(Inputs inputs, MakeInputs(model, args.inputs, std::nullopt));
  PX_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Session> session,
                      runtime::Session::Create(std::move(model), args.session.Options()));
  const double start = NowMilliseconds();
  Result<void> planned = session->Prepare(inputs.tensors);
  if (!planned.ok()) return inputs.assumptions.ExplainShapes(planned.error());
  Result<std::vector<Tensor>> run = session->Run(inputs.tensors);
  if (!run.ok()) return inputs.assumptions.ExplainRun(run.error());
  const std::vector<Tensor> outputs = std::move(*run);
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
  AddInputOptions(command, &args->inputs, NotGiven::kRefuseUnlessRandom);
  command
      ->add_option("--outputs", args->outputs,
                   "Write the outputs to an .npz file, by name (a link is followed)")
      ->type_name("FILE.npz")
      ->check([](const std::string& path) {
        return path.ends_with(".npz") ? "" : "'" + path + "' should end in .npz, which it will be";
      });
  AddSessionOptions(command, &args->session);
  command->add_flag("--json", args->json, "Print JSON");
  command->callback([args, exit_code] {
    Result<void> result = Run(*args);
    if (!result.ok()) *exit_code = Report(result.error());
  });
}

}  // namespace parallax::cli
