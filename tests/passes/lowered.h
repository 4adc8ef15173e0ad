// What tests of the passes of Lower share: graphs as they are executed, and what they compute.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/core/inference.h"
#include "passes/passes.h"
#include "runtime/session.h"
#include "tests/ops/runner/compare.h"
#include "tests/ops/runner/text_model.h"

namespace parallax::testing {

inline Model MustImport(Result<Model> model) {
  EXPECT_TRUE(model.ok()) << model.error().message();
  return model.ok() ? std::move(*model) : Model();
}
inline Model FromText(const std::string& body, int opset = 17) {
  return MustImport(
      ImportText("<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + body));
}

// The graph that is executed when inputs have their declared shapes, open extents being 1, or the
// first one `first`.
inline Graph Lowered(const Model& model, const std::vector<int64_t>& first = {}) {
  std::vector<ops::InferInput> inputs = ops::DeclaredInputs(model.graph);
  for (ops::InferInput& i : inputs) {
    for (Dim& d : i.type.dims) {
      if (!d.known()) d = Dim(1);
    }
  }
  for (size_t d = 0; d < first.size(); ++d) inputs[0].type.dims[d] = Dim(first[d]);
  Result<ops::Inference> known = ops::InferGraph(model.graph, inputs);
  EXPECT_TRUE(known.ok()) << known.error().message();
  Graph graph = model.graph.Clone();
  if (!known.ok()) return graph;
  const Result<void> lowered = passes::Lower(&graph, *known);
  EXPECT_TRUE(lowered.ok()) << lowered.error().message();
  return graph;
}

// Operators in order, and how often each stands there.
inline std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& n : graph.nodes) ops.push_back(n.op);
  return ops;
}
inline std::map<std::string, int> OpCounts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& n : graph.nodes) ++counts[n.op];
  return counts;
}
inline const Node* FindNode(const Graph& graph, std::string_view op) {
  const auto it = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                               [&](const Node& n) { return n.op == op; });
  return it == graph.nodes.end() ? nullptr : &*it;
}

// Random f32 inputs give the same results, to `tolerance`, with and without lowering.
inline void ExpectSameResults(const std::string& body, int opset = 17, double tolerance = 1e-6) {
  std::vector<std::vector<Tensor>> results;
  for (const bool lower : {false, true}) {
    Model model = FromText(body, opset);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<Tensor> inputs;
    for (ValueId v : model.graph.inputs) {
      Result<Tensor> t = Tensor::Allocate(DType::kF32, *model.graph.value(v).type.shape());
      ASSERT_TRUE(t.ok());
      for (int64_t i = 0; i < t->elements(); ++i) t->mutable_data<float>()[i] = normal(random);
      inputs.push_back(std::move(*t));
    }
    Result<std::unique_ptr<runtime::Session>> session =
        runtime::Session::Create(std::move(model), {.execution = {.lower = lower}});
    ASSERT_TRUE(session.ok());
    Result<std::vector<Tensor>> outputs = (*session)->Run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message();
    results.push_back(std::move(*outputs));
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_EQ(Difference(results[1][i], results[0][i], tolerance), "");
  }
}

}  // namespace parallax::testing
