#include "onnx/node_order.h"

#include <functional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>

#include <onnx/onnx_pb.h>

namespace parallax::onnx_import {
namespace {

// Names that `graph` reads and does not define: what a body takes from outside.
void CollectFreeNames(const ::onnx::GraphProto& graph, std::set<std::string>* names);

void CollectReads(const ::onnx::NodeProto& node, std::set<std::string>* names) {
  for (const std::string& name : node.input()) {
    if (!name.empty()) names->insert(name);
  }
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) CollectFreeNames(attribute.g(), names);
    for (const auto& g : attribute.graphs()) CollectFreeNames(g, names);
  }
}

void CollectFreeNames(const ::onnx::GraphProto& graph, std::set<std::string>* names) {
  std::set<std::string> reads;
  for (const auto& node : graph.node()) CollectReads(node, &reads);
  for (const auto& output : graph.output()) reads.insert(output.name());
  for (const auto& input : graph.input()) reads.erase(input.name());
  for (const auto& tensor : graph.initializer()) reads.erase(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) reads.erase(tensor.values().name());
  for (const auto& node : graph.node()) {
    for (const std::string& name : node.output()) reads.erase(name);
  }
  names->insert(reads.begin(), reads.end());
}

}  // namespace

Result<std::vector<int>> OrderNodes(const ::onnx::GraphProto& proto) {
  const int count = proto.node_size();
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < count; ++i) {
    for (const std::string& name : proto.node(i).output()) {
      if (!name.empty()) producer.emplace(name, i);
    }
  }
  std::vector<std::vector<int>> readers(static_cast<size_t>(count));
  std::vector<int> missing(static_cast<size_t>(count), 0);
  for (int i = 0; i < count; ++i) {
    std::set<std::string> reads;
    CollectReads(proto.node(i), &reads);
    std::set<int> producers;
    for (const std::string& name : reads) {
      if (auto it = producer.find(name); it != producer.end()) producers.insert(it->second);
    }
    for (int p : producers) {
      readers[static_cast<size_t>(p)].push_back(i);
      ++missing[static_cast<size_t>(i)];
    }
  }
  // The least ready position first keeps the file's order where it is topological.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < count; ++i) {
    if (missing[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  order.reserve(static_cast<size_t>(count));
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int r : readers[static_cast<size_t>(i)]) {
      if (--missing[static_cast<size_t>(r)] == 0) ready.push(r);
    }
  }
  if (static_cast<int>(order.size()) == count) return order;
  // Walk backwards among the nodes left over until one repeats: it lies on a cycle.
  std::vector<int> before(static_cast<size_t>(count), -1);
  for (int p = 0; p < count; ++p) {
    if (missing[static_cast<size_t>(p)] == 0) continue;
    for (int r : readers[static_cast<size_t>(p)]) before[static_cast<size_t>(r)] = p;
  }
  int at = 0;
  while (missing[static_cast<size_t>(at)] == 0) ++at;
  std::vector<bool> seen(static_cast<size_t>(count), false);
  while (!seen[static_cast<size_t>(at)]) {
    seen[static_cast<size_t>(at)] = true;
    at = before[static_cast<size_t>(at)];
  }
  const auto& node = proto.node(at);
  return MakeError(ErrorCode::kInvalidModel, "the graph has a cycle through node '{}' ({})",
                   node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(),
                   node.op_type());
}

}  // namespace parallax::onnx_import
