// Graph: nodes in topological order over single-assignment values; Model: a graph and its header.
//
// Role:       output of the importer, input of passes, plans and sessions.
// Ownership:  a Graph owns its nodes, values and the bodies of control-flow nodes.
// Threads:    immutable after import except through passes; then safe to share.
// Invariants: (1) a node reads only values of earlier nodes, inputs, captures and constants;
//             (2) every value has one origin: an input, a capture, a constant, or one node;
//             (3) node ids and value ids are positions in nodes and values;
//             (4) a body's captures stand, in order, for the last inputs of its node: input
//                 node.explicit_inputs + k of the node belongs to capture k of *all* bodies
//                 together, in the order of the bodies.
//             Verify() checks all of them.
// Example:
//   for (const Node& n : graph.nodes)
//     for (ValueId v : n.inputs) if (v != kNoValue) Use(graph.values[v]);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/attributes.h"
#include "ir/tensor.h"
#include "ir/types.h"

namespace parallax {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an optional input or output that is left out
inline constexpr NodeId kNoNode = -1;

struct Graph;

enum class ValueOrigin : uint8_t { kNode, kInput, kCapture, kConstant };

struct Value {
  std::string name;
  TensorType type;
  ValueOrigin origin = ValueOrigin::kNode;
  NodeId producer = kNoNode;  // kNode only
  // kConstant: the value. kInput: the default that stands when the caller feeds nothing.
  Tensor constant;
};

struct Subgraph {
  std::string attribute;  // "then_branch", "body"...
  std::unique_ptr<Graph> graph;
};

struct Node {
  std::string name;
  std::string op;
  std::string domain;  // "" is ai.onnx
  int opset = 0;       // version of `domain` the model imports
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  int explicit_inputs = 0;  // inputs after these are the captures of the bodies
  Attributes attributes;
  std::vector<Subgraph> subgraphs;

  const Graph* Body(std::string_view attribute) const;
  // "Conv", or "acme::Foo" outside the default domain.
  std::string QualifiedOp() const;
  // "'conv1'", or "producing 'y'" for an unnamed node.
  std::string Label(const Graph& graph) const;
  // "'conv1' (Conv)": how errors name a node, after the word "node".
  std::string Describe(const Graph& graph) const;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;           // may repeat a value, and may name inputs and constants
  std::vector<std::string> output_names;  // kept when a pass replaces the value behind one
  std::vector<ValueId> captures;          // values of enclosing graphs, see invariant 4

  ValueId AddValue(Value value);
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes[static_cast<size_t>(id)]; }
  // The first input position with that name, or -1.
  int FindInput(std::string_view input_name) const;
  // Checks the invariants, bodies included.
  Result<void> Verify() const;
  // The same graph, bodies included, to rewrite; constants share their bytes.
  Graph Clone() const;
};

struct Model {
  Graph graph;
  SymbolTable symbols;
  // For people, in the order of graph.outputs: what inference knows, and where it knows nothing
  // what the file declares. Nobody checks that claim, so no shape may be computed from it.
  std::vector<TensorType> output_types;
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int> opsets;            // by domain, "" for ai.onnx
  std::map<std::string, std::string> metadata;  // the file's metadata_props
  uint64_t file_bytes = 0;
};

// Whether a tensor of that type and shape may be fed to input `i` of the model; the error names the
// input, what is wanted and what is found.
Result<void> CheckInput(const Model& model, size_t i, DType dtype, const Shape& shape);

// Readers of each value, by value id: the nodes that take it as an input, once per node.
std::vector<std::vector<NodeId>> Readers(const Graph& graph);

// Rebuilds ids after a pass has marked nodes dead: drops those nodes and every value that nothing
// produces, reads or names any more (inputs and captures stay).
void Compact(Graph* graph, const std::vector<bool>& dead_nodes);

}  // namespace parallax
