// parallax bench: latency, load time and memory of a model; with --ops, of each operator.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/command.h"
#include "cli/human.h"
#include "cli/inputs.h"
#include "kernels/limits/limits.h"
#include "ops/core/inference.h"

namespace parallax::cli {
namespace {

struct BenchArguments {
  ModelOptions model;
  InputOptions inputs;
  SessionArguments session;
  int runs = 20;
  int warmup = 5;
  bool ops = false;
  bool json = false;
};

struct NodeTime {
  std::string name, op, kernel, shape;
  double best_us = 1e300;
  ops::Cost cost;
};

// Keeps each node's fastest run. Control flow has the time of its own only, without that of the nodes in its
// bodies, which are there themselves.
class OpProfile final : public runtime::Observer {
 public:
  void OnNode(const runtime::NodeEvent& e) override {
    NodeTime& t = nodes_[&e.node];
    double us = e.end_us - e.start_us;
    const std::pair<double, double> spent = {e.start_us, us};
    for (; !spent_.empty() && spent_.back().first >= e.start_us; spent_.pop_back()) {
      us -= spent_.back().second;
    }
    spent_.push_back(spent);
    if (t.op.empty()) {
      t.name = e.node.name;
      t.op = e.node.QualifiedOp();
      t.kernel = e.kernel.empty() ? "(control flow)" : e.kernel;
      if (!e.outputs.empty()) {
        t.shape = e.outputs[0].shape.ToString();
        t.cost = ops::EstimateCost(e.node, e.inputs, e.outputs);
      }
    }
    t.best_us = std::min(t.best_us, us);
  }
  std::vector<NodeTime> Sorted() const {
    std::vector<NodeTime> all;
    for (const auto& [node, time] : nodes_) all.push_back(time);
    std::sort(all.begin(), all.end(),
              [](const NodeTime& a, const NodeTime& b) { return a.best_us > b.best_us; });
    return all;
  }

 private:
  std::map<const Node*, NodeTime> nodes_;
  // Start and time of what ran and is in no body yet.
  std::vector<std::pair<double, double>> spent_;
};

struct Latency {
  double min = 0, mean = 0, median = 0, p90 = 0, max = 0;
};

Latency Statistics(std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const size_t n = ms.size();
  Latency l;
  l.min = ms.front();
  l.max = ms.back();
  l.mean = std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(n);
  l.median = n % 2 == 1 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  l.p90 = ms[std::min(n - 1, (n * 9 + 9) / 10 - 1)];
  return l;
}

// What was fed, some of it: extents that nobody gave change the time like no other thing.
void PrintInputs(const Model& model, const Inputs& inputs) {
  constexpr size_t kMost = 4;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(inputs.types.size(), kMost); ++i) {
    shown.push_back(fmt::format("{} {}", model.graph.value(model.graph.inputs[i]).name,
                                ToString(inputs.types[i], model.symbols)));
  }
  const size_t others = inputs.types.size() - shown.size();
  Print("inputs       {}{}\n", fmt::join(shown, ", "),
        others > 0 ? fmt::format(" and {} more", others) : "");
  const std::string open = inputs.assumptions.OpenExtents();
  if (!open.empty()) Print("             {}\n", open);
}

void Progress(int done, int total) {
  if (isatty(STDERR_FILENO) == 0) return;
  constexpr int kWidth = 40;
  const int filled = done * kWidth / total;
  fmt::print(stderr, "\r[{:=<{}}{:<{}}] {}/{}", "", filled, "", kWidth - filled, done, total);
  if (done == total) fmt::print(stderr, "\r{:{}}\r", "", kWidth + 24);
  std::fflush(stderr);
}

// What the machine can do with the session's threads.
struct Limits {
  double gflops = 0, read_gbps = 0;
  explicit Limits(int threads) {
    Team team(threads);
    gflops = kernels::MeasureFmaPeak(team);
    read_gbps = kernels::MeasureReadBandwidth(team);
  }
};

void PrintOps(const std::vector<NodeTime>& nodes, const Limits& limits) {
  double total = 0;
  std::map<std::string, std::pair<double, int>> by_op;
  for (const NodeTime& t : nodes) {
    total += t.best_us;
    by_op[t.op].first += t.best_us;
    ++by_op[t.op].second;
  }
  std::vector<std::pair<std::string, std::pair<double, int>>> ops(by_op.begin(), by_op.end());
  std::sort(ops.begin(), ops.end(),
            [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::vector<std::string> op_names;
  for (const auto& [op, t] : ops) op_names.push_back(op);
  const int op_width = ColumnWidth(24, op_names);
  Print("\n{:<{}} {:>6} {:>12} {:>7}\n", "operator", op_width, "nodes", "us", "%");
  for (const auto& [op, t] : ops) {
    Print("{:<{}} {:>6} {:>12.1f} {:>6.1f}%\n", op, op_width, t.second, t.first,
          100 * t.first / total);
  }
  const size_t shown = std::min<size_t>(nodes.size(), 30);
  std::vector<std::string> kernels, shapes;
  for (size_t i = 0; i < shown; ++i) {
    kernels.push_back(nodes[i].kernel);
    shapes.push_back(nodes[i].shape);
  }
  const int kernel_width = ColumnWidth(20, kernels), shape_width = ColumnWidth(24, shapes);
  Print("\nmeasured limits: {:.0f} GFLOP/s (FMA), {:.1f} GB/s read from memory\n", limits.gflops,
        limits.read_gbps);
  Print(
      "Winograd multiplies less than the formula that is counted and can pass the first,\n"
      "what lies in a cache the second.\n");
  Print("\n{:<36} {:<{}} {:<{}} {:>10} {:>9} {:>6} {:>8}\n", "node", "kernel", kernel_width,
        "output", shape_width, "us", "GFLOP/s", "% peak", "GB/s");
  for (size_t i = 0; i < shown; ++i) {
    const NodeTime& t = nodes[i];
    const double bytes = t.cost.bytes_read + t.cost.bytes_written;
    std::string name = t.name.empty() ? t.op : t.name;
    if (name.size() > 36) name = "..." + name.substr(name.size() - 33);
    const double gflops = t.cost.flops / t.best_us / 1e3;
    Print("{:<36} {:<{}} {:<{}} {:>10.1f} {:>9.1f} {:>6.1f} {:>8.1f}\n", name, t.kernel,
          kernel_width, t.shape, shape_width, t.best_us, gflops, 100 * gflops / limits.gflops,
          bytes / t.best_us / 1e3);
  }
  if (nodes.size() > shown) {
    Print("... and {} more nodes (--json lists all)\n", nodes.size() - shown);
  }
}

nlohmann::ordered_json OpsJson(const std::vector<NodeTime>& nodes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const NodeTime& t : nodes) {
    list.push_back({{"node", t.name},
                    {"op", t.op},
                    {"kernel", t.kernel},
                    {"output", t.shape},
                    {"us", t.best_us},
                    {"flops", t.cost.flops},
                    {"bytes", t.cost.bytes_read + t.cost.bytes_written}});
  }
  return list;
}

Result<void> Bench(const BenchArguments& args) {
  const int64_t start_rss = PeakResidentBytes();
  const double load_start = NowMilliseconds();
  PX_ASSIGN_OR_RETURN(Model model, LoadModel(args.model));
  double load_ms = NowMilliseconds() - load_start;
  PX_ASSIGN_OR_RETURN(const Inputs inputs, MakeInputs(model, args.inputs, 0));
  const double create_start = NowMilliseconds();
  PX_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Session> session,
                      runtime::Session::Create(std::move(model), args.session.Options()));
  const double plan_start = NowMilliseconds();
  Result<void> planned = session->Prepare(inputs.tensors);
  if (!planned.ok()) return inputs.assumptions.ExplainShapes(planned.error());
  const double plan_ms = NowMilliseconds() - plan_start;
  load_ms += plan_start - create_start;
  for (int i = 0; i < args.warmup; ++i) {
    Result<std::vector<Tensor>> outputs = session->Run(inputs.tensors);
    if (!outputs.ok()) return inputs.assumptions.ExplainRun(outputs.error());
  }
  std::vector<double> ms;
  for (int i = 0; i < args.runs; ++i) {
    Progress(i, args.runs);
    const double start = NowMilliseconds();
    Result<std::vector<Tensor>> outputs = session->Run(inputs.tensors);
    ms.push_back(NowMilliseconds() - start);
    if (!outputs.ok()) return inputs.assumptions.ExplainRun(outputs.error());
  }
  Progress(args.runs, args.runs);
  const int64_t peak = PeakResidentBytes();
  OpProfile profile;
  for (int i = 0; args.ops && i < std::max(args.runs, 1); ++i) {
    runtime::RunOptions run_options;
    run_options.observer = &profile;
    Result<std::vector<Tensor>> outputs = session->Run(inputs.tensors, run_options);
    if (!outputs.ok()) return inputs.assumptions.ExplainRun(outputs.error());
  }
  const Latency l = Statistics(ms);
  const runtime::MemoryUse memory = session->memory();
  if (args.json) {
    nlohmann::ordered_json json;
    json["model"] = args.model.path;
    json["threads"] = session->threads();
    json["mode"] = "sequential";
    const Graph& graph = session->model().graph;
    json["inputs"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < inputs.types.size(); ++i) {
      const std::optional<Shape> shape = inputs.types[i].shape();
      json["inputs"].push_back({{"name", graph.value(graph.inputs[i]).name},
                                {"dtype", Name(inputs.types[i].dtype)},
                                {"shape", shape->dims()}});
    }
    json["latency_ms"] = {{"min", l.min}, {"mean", l.mean}, {"median", l.median},
                          {"p90", l.p90}, {"max", l.max},   {"runs", ms.size()}};
    json["planned_bytes"] = {{"activations", memory.activations},
                             {"weights", memory.weights},
                             {"total", memory.activations + memory.weights}};
    json["peak_rss_bytes"] = peak;
    json["start_rss_bytes"] = start_rss;  // before the model was read
    json["load_ms"] = load_ms;
    json["plan_ms"] = plan_ms;
    if (args.ops) {
      const Limits limits(session->threads());
      json["limits"] = {{"fma_gflops", limits.gflops}, {"read_gbps", limits.read_gbps}};
      json["ops"] = OpsJson(profile.Sorted());
    }
    fmt::print("{}\n", DumpJson(json, 2));
    return {};
  }
  Print("{} on {} thread(s), {} runs after {} warm-up\n", args.model.path, session->threads(),
        args.runs, args.warmup);
  PrintInputs(session->model(), inputs);
  // One unit for the whole line, so that its numbers compare at a glance.
  const bool in_us = l.median < 1;
  const double scale = in_us ? 1e3 : 1;
  Print("latency {}   min {:.3f}  median {:.3f}  mean {:.3f}  p90 {:.3f}  max {:.3f}\n",
        in_us ? "us" : "ms", scale * l.min, scale * l.median, scale * l.mean, scale * l.p90,
        scale * l.max);
  Print("load {}, plan {} (weights are packed here)\n", HumanMilliseconds(load_ms),
        HumanMilliseconds(plan_ms));
  Print("memory       activations {}, packed weights {}, peak resident {}\n",
        HumanBytes(static_cast<double>(memory.activations)),
        HumanBytes(static_cast<double>(memory.weights)), HumanBytes(static_cast<double>(peak)));
  if (args.ops) PrintOps(profile.Sorted(), Limits(session->threads()));
  return {};
}

}  // namespace

void AddBenchCommand(CLI::App* app, int* exit_code) {
  auto args = std::make_shared<BenchArguments>();
  CLI::App* command = app->add_subcommand("bench", "Measure a model: latency, load time, memory");
  AddModelOptions(command, &args->model);
  AddInputOptions(command, &args->inputs, NotGiven::kDraw);
  AddSessionOptions(command, &args->session);
  command->add_option("--runs", args->runs, "Measured runs")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--warmup", args->warmup, "Runs before measuring")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_flag(
      "--ops", args->ops,
      "Time every operator, in as many more runs: its kernel, rates and part of the peak");
  command->add_flag("--json", args->json, "Print JSON");
  command->callback([args, exit_code] {
    Result<void> result = Bench(*args);
    if (!result.ok()) *exit_code = Report(result.error());
  });
}

}  // namespace parallax::cli
