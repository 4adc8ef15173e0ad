// parallax analyze: what a model is made of and what it costs, without running it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/inputs.h"
#include "passes/passes.h"
#include "plan/cost.h"

namespace parallax::cli {
namespace {

struct AnalyzeArguments {
  ModelOptions model;
  InputOptions inputs;
  bool json = false;
};

struct Analysis {
  Model model;
  std::vector<std::string> unsupported;
  std::map<std::string, int64_t> operators;  // nodes as imported, bodies included
  int64_t nodes = 0, nodes_after_passes = 0;
  int64_t parameters = 0, parameter_bytes = 0;
  std::vector<TensorType> input_types;  // concrete, as the cost is counted for
  std::string cost_note;                // why there is no cost
  plan::GraphCost cost;
};

void CountNodes(const Graph& graph, Analysis* a) {
  for (const Node& n : graph.nodes) {
    ++a->nodes;
    ++a->operators[n.QualifiedOp()];
    for (const Subgraph& s : n.subgraphs) CountNodes(*s.graph, a);
  }
}

// Floating-point constants are the parameters; a constant shared with bodies counts once.
void CountParameters(const Graph& graph, std::map<const std::byte*, bool>* seen, Analysis* a) {
  const auto count = [&](const Tensor& t) {
    if (!t.defined() || !IsFloat(t.dtype()) || t.elements() == 0) return;
    if (!seen->emplace(t.bytes_begin(), true).second) return;
    a->parameters += t.elements();
    a->parameter_bytes += static_cast<int64_t>(t.bytes());
  };
  for (const Value& v : graph.values) count(v.constant);
  for (const Node& n : graph.nodes) {
    for (const Subgraph& s : n.subgraphs) CountParameters(*s.graph, seen, a);
  }
}

int64_t NodesOf(const Graph& graph) {
  int64_t n = static_cast<int64_t>(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    for (const Subgraph& s : node.subgraphs) n += NodesOf(*s.graph);
  }
  return n;
}

Result<Analysis> Analyze(const AnalyzeArguments& args) {
  Analysis a;
  onnx_import::ImportOptions import;
  import.allow_external = args.model.allow_external;
  import.unsupported = &a.unsupported;
  PX_ASSIGN_OR_RETURN(a.model, onnx_import::ImportFile(args.model.path, import));
  CountNodes(a.model.graph, &a);
  std::map<const std::byte*, bool> seen;
  CountParameters(a.model.graph, &seen, &a);
  if (!a.unsupported.empty()) {
    a.cost_note = "not known: the model has unsupported nodes";
    return a;
  }
  PX_RETURN_IF_ERROR(passes::Optimize(&a.model));
  a.nodes_after_passes = NodesOf(a.model.graph);
  Result<std::vector<TensorType>> types = InputTypes(a.model, args.inputs);
  if (!types.ok()) {
    if (!args.inputs.shapes.empty() || !args.inputs.npz.empty() || !args.inputs.arrays.empty()) {
      return types.error();
    }
    a.cost_note = types.error().message();
    return a;
  }
  a.input_types = std::move(*types);
  std::vector<ops::InferInput> inputs;
  for (size_t i = 0; i < a.input_types.size(); ++i) {
    const Value& value = a.model.graph.value(a.model.graph.inputs[i]);
    inputs.push_back(
        {a.input_types[i], value.constant.defined() ? &value.constant : nullptr, nullptr});
  }
  Result<plan::GraphCost> cost = plan::CostOf(a.model.graph, inputs);
  if (!cost.ok()) {
    a.cost_note = "not known at these input shapes: " + cost.error().message();
    return a;
  }
  a.cost = std::move(*cost);
  return a;
}

std::vector<std::string> SymbolNames(const Model& model) {
  std::vector<std::string> names;
  for (SymbolId s = 1; s <= model.symbols.size(); ++s) names.emplace_back(model.symbols.NameOf(s));
  return names;
}

void Print(const AnalyzeArguments& args, const Analysis& a) {
  const Model& m = a.model;
  const Graph& g = m.graph;
  fmt::print("{}  {}\n", args.model.path, HumanBytes(static_cast<double>(m.file_bytes)));
  std::string opsets;
  for (const auto& [domain, version] : m.opsets) {
    opsets += fmt::format(" {}:{}", domain.empty() ? "ai.onnx" : domain, version);
  }
  fmt::print("IR {}, opset{}{}\n\n", m.ir_version, opsets,
             m.producer.empty() ? "" : ", by " + m.producer);
  const bool concrete = a.cost_note.empty() && !a.input_types.empty();
  fmt::print("inputs\n");
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Value& v = g.value(g.inputs[i]);
    std::string line = fmt::format("  {:<28} {}", v.name, ToString(v.type, m.symbols));
    if (v.constant.defined()) line += "  (has a default)";
    if (concrete && !v.type.is_static()) {
      line += fmt::format("  counted as {}", ToString(a.input_types[i], m.symbols));
    }
    fmt::print("{}\n", line);
  }
  fmt::print("outputs\n");
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    fmt::print("  {:<28} {}\n", g.output_names[i], ToString(g.value(g.outputs[i]).type, m.symbols));
  }
  if (m.symbols.size() > 0) {
    fmt::print("symbolic dimensions  {}\n", fmt::join(SymbolNames(m), ", "));
  }
  fmt::print("\nparameters  {} ({})\n", HumanCount(static_cast<double>(a.parameters)),
             HumanBytes(static_cast<double>(a.parameter_bytes)));
  if (a.cost_note.empty()) {
    fmt::print("work        {}FLOPs (a multiply-add counts 2), {} read and written{}\n",
               HumanCount(a.cost.flops), HumanBytes(a.cost.bytes),
               a.cost.unknown_nodes == 0
                   ? ""
                   : fmt::format("; {} node(s) have data-dependent shapes and count 0",
                                 a.cost.unknown_nodes));
    fmt::print("nodes       {}, {} after folding\n", a.nodes, a.nodes_after_passes);
  } else {
    fmt::print("work        {}\nnodes       {}\n", a.cost_note, a.nodes);
  }
  std::vector<std::pair<std::string, int64_t>> ops(a.operators.begin(), a.operators.end());
  std::stable_sort(ops.begin(), ops.end(),
                   [](const auto& x, const auto& y) { return x.second > y.second; });
  fmt::print("\n{:<28} {:>6} {:>12}\n", "operator", "nodes", "FLOPs");
  for (const auto& [op, count] : ops) {
    auto it = a.cost.flops_by_op.find(op);
    fmt::print("{:<28} {:>6} {:>12}\n", op, count,
               it == a.cost.flops_by_op.end() || it->second == 0 ? "" : HumanCount(it->second));
  }
  if (!a.unsupported.empty()) {
    fmt::print("\nunsupported nodes: {}\n", a.unsupported.size());
    for (const std::string& line : a.unsupported) fmt::print("  {}\n", line);
  }
}

void PrintJson(const AnalyzeArguments& args, const Analysis& a) {
  const Model& m = a.model;
  const Graph& g = m.graph;
  nlohmann::ordered_json json;
  json["model"] = args.model.path;
  json["file_bytes"] = m.file_bytes;
  json["ir_version"] = m.ir_version;
  json["producer"] = m.producer;
  for (const auto& [domain, version] : m.opsets) {
    json["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
  }
  const auto values = [&](const std::vector<ValueId>& ids, const std::vector<std::string>* names) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
      const Value& v = g.value(ids[i]);
      nlohmann::ordered_json shape = nullptr;
      if (v.type.ranked) {
        shape = nlohmann::ordered_json::array();
        for (const Dim& d : v.type.dims) {
          if (d.known()) {
            shape.push_back(d.extent);
          } else {
            shape.push_back(m.symbols.NameOf(d.symbol));
          }
        }
      }
      list.push_back({{"name", names == nullptr ? v.name : (*names)[i]},
                      {"dtype", Name(v.type.dtype)},
                      {"shape", shape}});
    }
    return list;
  };
  json["inputs"] = values(g.inputs, nullptr);
  json["outputs"] = values(g.outputs, &g.output_names);
  json["symbolic_dims"] = SymbolNames(m);
  json["parameters"] = a.parameters;
  json["parameter_bytes"] = a.parameter_bytes;
  json["nodes"] = a.nodes;
  if (a.cost_note.empty()) {
    json["nodes_after_passes"] = a.nodes_after_passes;
    json["flops"] = a.cost.flops;
    json["bytes"] = a.cost.bytes;
    json["unknown_nodes"] = a.cost.unknown_nodes;
  } else {
    json["cost_note"] = a.cost_note;
  }
  json["operators"] = nlohmann::ordered_json::array();
  for (const auto& [op, count] : a.operators) {
    nlohmann::ordered_json entry{{"op", op}, {"nodes", count}};
    if (auto it = a.cost.flops_by_op.find(op); it != a.cost.flops_by_op.end()) {
      entry["flops"] = it->second;
    }
    json["operators"].push_back(std::move(entry));
  }
  json["unsupported"] = a.unsupported;
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

void AddAnalyzeCommand(CLI::App* app, int* exit_code) {
  auto args = std::make_shared<AnalyzeArguments>();
  CLI::App* command =
      app->add_subcommand("analyze", "Say what a model is made of and what it costs");
  AddModelOptions(command, &args->model);
  AddInputOptions(command, &args->inputs);
  command->add_flag("--json", args->json, "Print JSON");
  command->callback([args, exit_code] {
    Result<Analysis> analysis = Analyze(*args);
    if (!analysis.ok()) {
      *exit_code = Report(analysis.error());
    } else if (args->json) {
      PrintJson(*args, *analysis);
    } else {
      Print(*args, *analysis);
    }
  });
}

}  // namespace parallax::cli
