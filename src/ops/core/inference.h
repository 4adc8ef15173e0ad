// Shape and constant inference over a graph.
//
// Role:       at import with symbolic inputs (types for people and passes to see), and again by a
//             session once input shapes are known (a model exported with dynamic axes is static
//             from there on).
// Ownership:  the result owns its types and folded values and outlives nothing it refers to: it
//             shares constants of the graph by reference count.
// Threads:    pure.
// Cost:       O(V + E) plus the evaluation of small integer constants.
// Invariants: a type in the result is as precise as the inputs allow; a value's element type is
//             always known. Nothing is computed from an open node, and it must not be bound before
//             its values are there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {

// Results for one graph, by value id.
struct Inference {
  std::vector<TensorType> types;
  // Values known before running: constants of the graph, inputs the caller fixed, and what shape
  // arithmetic makes of them. Undefined where not known.
  std::vector<Tensor> constants;
  // Integer vectors known as dimensions, symbols included.
  std::vector<std::optional<Dims>> dim_values;
  // By node id: see NodeInference::open.
  std::vector<bool> open;
};

struct InferInput {
  TensorType type;
  const Tensor* constant = nullptr;  // a value that stands for every run of this plan
  const Dims* dim_values = nullptr;
};

// What one node's inference gives.
struct NodeInference {
  std::vector<TensorType> outputs;
  std::vector<std::optional<Dims>> dim_values;
  // A value that inference reads (Param::steers) is not known yet: whether the node is valid, and
  // so whether the types hold, only the values will say.
  bool open = false;
};

// Types of the node's outputs. `inputs` covers all node inputs, captures included; entries of
// left-out inputs are ignored. Errors name the node of `graph`.
Result<NodeInference> InferNode(const Graph& graph, const Node& node,
                                std::span<const InferContext::Input> inputs);

// Types of every value. `inputs` and `captures` go with graph.inputs and graph.captures. An
// unsupported node is an error here; import lists them all before.
Result<Inference> InferGraph(const Graph& graph, std::span<const InferInput> inputs,
                             std::span<const InferInput> captures = {});

// The declared types of the graph's inputs, for a symbolic inference.
std::vector<InferInput> DeclaredInputs(const Graph& graph);

// FLOPs and bytes of a node with known shapes; zero flops for views and control flow.
Cost EstimateCost(const Node& node, std::span<const TensorInfo> inputs,
                  std::span<const TensorInfo> outputs);

}  // namespace parallax::ops
