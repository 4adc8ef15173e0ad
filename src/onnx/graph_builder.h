// GraphBuilder: GraphProto to Graph, bodies of control flow included.
//
// Role:       second step of import, after the skeleton is parsed.
// Ownership:  borrows the model (opsets, symbols) and the tensor reader.
// Threads:    used by one thread.
// Invariants: nodes come out in topological order (stable: the file's order where that is one);
//             a name has one meaning in a graph; `Constant` nodes become constants.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "onnx/tensor_reader.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
class ValueInfoProto;
}  // namespace onnx

namespace parallax::onnx_import {

class GraphBuilder {
 public:
  GraphBuilder(Model* model, TensorReader* tensors) : model_(model), tensors_(tensors) {}

  // The main graph. Errors name the graph, node, value or tensor.
  Result<Graph> Build(const ::onnx::GraphProto& proto);

 private:
  // Names visible while one graph is built; `outer` is the enclosing graph's.
  struct Scope {
    Graph* graph = nullptr;
    Scope* outer = nullptr;
    std::map<std::string, ValueId, std::less<>> names;
    // Values of enclosing graphs this body reads, in the order of graph->captures.
    std::vector<std::string> captured;
  };

  Result<Graph> BuildGraph(const ::onnx::GraphProto& proto, Scope* outer,
                           std::vector<std::string>* captured);
  Result<void> AddInitializers(const ::onnx::GraphProto& proto, Scope* scope,
                               std::map<std::string, Tensor>* constants);
  Result<void> AddInputs(const ::onnx::GraphProto& proto, Scope* scope,
                         std::map<std::string, Tensor>* constants);
  Result<void> AddNode(const ::onnx::NodeProto& proto, Scope* scope);
  Result<void> AddConstantNode(const ::onnx::NodeProto& proto, Scope* scope);
  Result<void> AddOutputs(const ::onnx::GraphProto& proto, Scope* scope);
  Result<void> SetAttribute(const ::onnx::AttributeProto& proto, Scope* scope, Node* node);
  Result<ValueId> Define(Scope* scope, const std::string& name, Value value);
  // The value of that name here or in an enclosing graph (which makes a capture), or kNoValue.
  ValueId Resolve(Scope* scope, const std::string& name);
  Result<TensorType> ReadType(const ::onnx::ValueInfoProto& proto);

  Model* model_;
  TensorReader* tensors_;
};

}  // namespace parallax::onnx_import
