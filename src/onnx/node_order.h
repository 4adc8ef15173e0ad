// Topological order of the nodes of a GraphProto.
//
// Role:       used by the graph builder; files are usually in order, but need not be.
// Threads:    pure.
// Cost:       O(V log V + E).
#pragma once

#include <vector>

#include "base/result.h"

namespace onnx {
class GraphProto;
}  // namespace onnx

namespace parallax::onnx_import {

// Positions of proto.node() in an order in which every name is made before it is read (by the node
// or by a body inside it); the file's order where that already is one. A cycle is an error that
// names one node on it.
Result<std::vector<int>> OrderNodes(const ::onnx::GraphProto& proto);

}  // namespace parallax::onnx_import
