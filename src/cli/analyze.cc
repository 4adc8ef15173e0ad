// parallax analyze: what a model is made of and what it costs, without running it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/command.h"
#include "cli/human.h"
#include "cli/inputs.h"
#include "passes/passes.h"
#include "plan/branches.h"
#include "plan/cost.h"

namespace parallax::cli {
namespace {

struct AnalyzeArguments {
  ModelOptions model;
  InputOptions inputs;
  bool json = false;
};

// What can run side by side in a graph, or in a body of one of its nodes.
struct Structure {
  std::string node, body;  // "" for the graph itself
  int64_t nodes = 0;
  plan::Branches branches;
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
  std::vector<Structure> structure;  // the graph's, then those of the bodies in it
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

// Of the graph and, behind it, of all bodies in it.
Result<void> FindStructure(const Graph& graph, std::string node, std::string body,
                           std::vector<Structure>* all) {
  PX_ASSIGN_OR_RETURN(const plan::Units units, plan::MakeUnits(graph));
  all->push_back({std::move(node), std::move(body), static_cast<int64_t>(units.units.size()),
                  plan::FindBranches(units)});
  for (const Node& n : graph.nodes) {
    for (const Subgraph& s : n.subgraphs) {
      const std::string label = n.name.empty() ? n.Label(graph) : n.name;
      PX_RETURN_IF_ERROR(FindStructure(*s.graph, label, s.attribute, all));
    }
  }
  return {};
}

int64_t NodesOf(const Graph& graph) {
  int64_t n = static_cast<int64_t>(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    for (const Subgraph& s : node.subgraphs) n += NodesOf(*s.graph);
  }
  return n;
}

// The first input without a rank that has no default, or "".
std::string UnrankedInput(const Model& model) {
  for (ValueId v : model.graph.inputs) {
    const Value& value = model.graph.value(v);
    if (!value.type.ranked && !value.constant.defined()) return value.name;
  }
  return "";
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
  Result<void> optimized = passes::Optimize(&a.model);
  if (!optimized.ok()) return optimized.error().WithContext(args.model.path);
  a.nodes_after_passes = NodesOf(a.model.graph);
  if (const std::string name = UnrankedInput(a.model); !name.empty() && !args.inputs.any()) {
    a.cost_note =
        fmt::format("not known: input '{0}' has no rank in the model; give --shape {0}=...", name);
    return a;
  }
  PX_ASSIGN_OR_RETURN(Inputs given, GivenInputs(a.model, args.inputs));
  a.input_types = std::move(given.types);
  std::vector<Dims> values(a.input_types.size());
  std::vector<int64_t> ints;
  std::vector<ops::InferInput> inputs;
  for (size_t i = 0; i < a.input_types.size(); ++i) {
    inputs.push_back({a.input_types[i], nullptr, nullptr});
    const Value& value = a.model.graph.value(a.model.graph.inputs[i]);
    const Tensor& tensor = given.tensors[i];
    if (!tensor.defined()) {
      // Where --shape replaces a default, its value counts for nothing.
      const bool stands =
          value.constant.defined() && a.input_types[i].shape() == value.constant.shape();
      if (stands) inputs.back().constant = &value.constant;
    } else if (tensor.dtype() == DType::kBool && tensor.elements() == 1) {
      inputs.back().constant = &tensor;  // the condition of an If or a Loop
    } else if (tensor.shape().rank() <= 1 && tensor.elements() <= kMaxRank &&
               ReadInts(tensor, kMaxRank, &ints)) {
      // A trip count or a shape; -1 ("infer it") is none, and stays what it is.
      if (std::all_of(ints.begin(), ints.end(), [](int64_t v) { return v >= 0; })) {
        values[i].assign(ints.begin(), ints.end());
        inputs.back().dim_values = &values[i];
      } else {
        inputs.back().constant = &tensor;
      }
    }
  }
  const Result<ops::Inference> known = ops::InferGraph(a.model.graph, inputs);
  Result<plan::GraphCost> cost =
      known.ok() ? plan::CostOf(a.model.graph, *known) : Result<plan::GraphCost>(known.error());
  if (!cost.ok()) {
    const Error explained = given.assumptions.ExplainShapes(cost.error());
    // `run` would refuse the same.
    if (args.inputs.any()) return explained;
    a.cost_note = "not known at these input shapes: " + explained.message();
    return a;
  }
  a.cost = std::move(*cost);
  Graph folded = a.model.graph.Clone();
  PX_RETURN_IF_ERROR(passes::FoldKnown(&folded, *known));
  PX_RETURN_IF_ERROR(FindStructure(folded, "", "", &a.structure));
  return a;
}

// The symbols that stand in the types of inputs and outputs, in the order of the file.
std::vector<std::string> SymbolNames(const Model& model) {
  std::vector<bool> shown(static_cast<size_t>(model.symbols.size()) + 1);
  const auto see = [&](const TensorType& type) {
    for (const Dim& d : type.dims) {
      if (!d.known()) shown[static_cast<size_t>(d.symbol)] = true;
    }
  };
  for (ValueId v : model.graph.inputs) see(model.graph.value(v).type);
  for (const TensorType& type : model.output_types) see(type);
  std::vector<std::string> names;
  for (SymbolId s = 1; s <= model.symbols.size(); ++s) {
    if (shown[static_cast<size_t>(s)]) names.emplace_back(model.symbols.NameOf(s));
  }
  return names;
}

// What the FLOPs leave out or guess, one clause each.
std::string CostCaveats(const plan::GraphCost& cost) {
  std::string text;
  if (cost.unknown_nodes > 0) {
    text += fmt::format("; {} node(s) have shapes that only a run knows and count 0",
                        cost.unknown_nodes);
  }
  if (cost.open_loops > 0) {
    text += fmt::format("; {} loop(s) of unknown length count their body once", cost.open_loops);
  }
  if (cost.open_ifs > 0) {
    text += fmt::format("; {} If node(s) count their costlier side", cost.open_ifs);
  }
  return text;
}

void PrintValues(const Analysis& a) {
  const Model& m = a.model;
  const Graph& g = m.graph;
  std::vector<std::string> names = g.output_names;
  for (ValueId v : g.inputs) names.push_back(g.value(v).name);
  const int width = ColumnWidth(28, names);
  Print("inputs\n");
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Value& v = g.value(g.inputs[i]);
    std::string line = fmt::format("  {:<{}} {}", v.name, width, ToString(v.type, m.symbols));
    if (v.constant.defined()) line += "  (has a default)";
    if (!a.input_types.empty() && !v.type.is_static()) {
      line += fmt::format("  counted as {}", ToString(a.input_types[i], m.symbols));
    }
    Print("{}\n", line);
  }
  Print("outputs\n");
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    Print("  {:<{}} {}\n", g.output_names[i], width, ToString(m.output_types[i], m.symbols));
  }
  if (const std::vector<std::string> symbols = SymbolNames(m); !symbols.empty()) {
    Print("symbolic dimensions  {}\n", fmt::join(symbols, ", "));
  }
}

// Bodies where nothing can run side by side are many in some models, and are only counted.
void PrintStructure(const Analysis& a) {
  std::vector<std::string> names = {"structure at these shapes"};
  std::vector<const Structure*> shown;
  for (size_t i = 0; i < a.structure.size(); ++i) {
    const Structure& s = a.structure[i];
    if (i > 0 && s.branches.parallel_layers == 0) continue;
    names.push_back(i == 0 ? "graph" : fmt::format("  {} of {}", s.body, s.node));
    shown.push_back(&s);
  }
  const int width = ColumnWidth(28, names);
  Print("\n{:<{}} {:>6} {:>9} {:>7} {:>9} {:>7}\n", names[0], width, "nodes", "branches", "layers",
        "parallel", "widest");
  for (size_t i = 0; i < shown.size(); ++i) {
    const plan::Branches& b = shown[i]->branches;
    Print("{:<{}} {:>6} {:>9} {:>7} {:>9} {:>7}\n", names[i + 1], width, shown[i]->nodes,
          b.branches.size(), b.layers, b.parallel_layers, b.max_branches);
  }
  if (const size_t others = a.structure.size() - shown.size(); others > 0) {
    Print("  and {} bodies with one branch a layer\n", others);
  }
}

void PrintAnalysis(const AnalyzeArguments& args, const Analysis& a) {
  const Model& m = a.model;
  Print("{}  {}\n", args.model.path, HumanBytes(static_cast<double>(m.file_bytes)));
  std::string opsets;
  for (const auto& [domain, version] : m.opsets) {
    opsets += fmt::format(" {}:{}", domain.empty() ? "ai.onnx" : domain, version);
  }
  Print("IR {}, opset{}{}\n\n", m.ir_version, opsets,
        m.producer.empty() ? "" : ", by " + m.producer);
  PrintValues(a);
  Print("\nparameters  {} ({})\n", HumanCount(static_cast<double>(a.parameters)),
        HumanBytes(static_cast<double>(a.parameter_bytes)));
  if (a.cost_note.empty()) {
    Print("work        {} (a multiply-add counts 2), {} read and written{}\n",
          HumanCount(a.cost.flops, "FLOPs"), HumanBytes(a.cost.bytes), CostCaveats(a.cost));
    Print("nodes       {}, {} after folding\n", a.nodes, a.nodes_after_passes);
  } else {
    Print("work        {}\nnodes       {}\n", a.cost_note, a.nodes);
  }
  std::vector<std::pair<std::string, int64_t>> ops(a.operators.begin(), a.operators.end());
  std::stable_sort(ops.begin(), ops.end(),
                   [](const auto& x, const auto& y) { return x.second > y.second; });
  std::vector<std::string> names;
  for (const auto& [op, count] : ops) names.push_back(op);
  const int width = ColumnWidth(28, names);
  Print("\n{:<{}} {:>6} {:>12}\n", "operator", width, "nodes", "FLOPs");
  for (const auto& [op, count] : ops) {
    auto it = a.cost.flops_by_op.find(op);
    Print("{:<{}} {:>6} {:>12}\n", op, width, count,
          it == a.cost.flops_by_op.end() || it->second == 0 ? "" : HumanCount(it->second));
  }
  if (!a.structure.empty()) PrintStructure(a);
  if (!a.unsupported.empty()) {
    Print("\nunsupported nodes: {}\n", a.unsupported.size());
    for (const std::string& line : a.unsupported) Print("  {}\n", line);
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
  const auto value = [&](const std::string& name, const TensorType& type) {
    nlohmann::ordered_json shape = nullptr;
    if (type.ranked) {
      shape = nlohmann::ordered_json::array();
      for (const Dim& d : type.dims) {
        if (d.known()) {
          shape.push_back(d.extent);
        } else {
          shape.push_back(m.symbols.NameOf(d.symbol));
        }
      }
    }
    return nlohmann::ordered_json{{"name", name}, {"dtype", Name(type.dtype)}, {"shape", shape}};
  };
  json["inputs"] = nlohmann::ordered_json::array();
  for (ValueId v : g.inputs) json["inputs"].push_back(value(g.value(v).name, g.value(v).type));
  json["outputs"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    json["outputs"].push_back(value(g.output_names[i], m.output_types[i]));
  }
  json["symbolic_dims"] = SymbolNames(m);
  json["parameters"] = a.parameters;
  json["parameter_bytes"] = a.parameter_bytes;
  json["nodes"] = a.nodes;
  if (a.cost_note.empty()) {
    json["nodes_after_passes"] = a.nodes_after_passes;
    json["flops"] = a.cost.flops;
    json["bytes"] = a.cost.bytes;
    json["unknown_nodes"] = a.cost.unknown_nodes;
    json["loops_counted_once"] = a.cost.open_loops;
    json["ifs_by_costlier_side"] = a.cost.open_ifs;
    // Without a delegate every node stays on the CPU, before and after.
    const auto graph = [](const Structure& s) {
      const nlohmann::ordered_json counts{{"nodes", s.nodes},
                                          {"layers", s.branches.layers},
                                          {"parallel_layers", s.branches.parallel_layers},
                                          {"max_branches", s.branches.max_branches}};
      return nlohmann::ordered_json{{"pre", counts}, {"post", counts}, {"planned", counts}};
    };
    json["graph"] = graph(a.structure[0]);
    json["subgraphs"] = nlohmann::ordered_json::array();
    for (size_t i = 1; i < a.structure.size(); ++i) {
      const Structure& s = a.structure[i];
      json["subgraphs"].push_back({{"node", s.node}, {"body", s.body}, {"graph", graph(s)}});
    }
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
  fmt::print("{}\n", DumpJson(json, 2));
}

}  // namespace

void AddAnalyzeCommand(CLI::App* app, int* exit_code) {
  auto args = std::make_shared<AnalyzeArguments>();
  CLI::App* command =
      app->add_subcommand("analyze", "Say what a model is made of and what it costs");
  AddModelOptions(command, &args->model);
  AddInputOptions(command, &args->inputs, NotGiven::kRefuse);
  command->add_flag("--json", args->json, "Print JSON");
  command->callback([args, exit_code] {
    Result<Analysis> analysis = Analyze(*args);
    if (!analysis.ok()) {
      *exit_code = Report(analysis.error());
    } else if (args->json) {
      PrintJson(*args, *analysis);
    } else {
      PrintAnalysis(*args, *analysis);
    }
  });
}

}  // namespace parallax::cli
