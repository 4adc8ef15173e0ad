// Observer: sees every node a run executes, for profiles and traces.
//
// Role:       passed in RunOptions; `bench --ops` is one.
// Ownership:  borrowed for the run.
// Threads:    called by the thread that runs the node.
#pragma once

#include <span>
#include <string_view>

#include "ir/graph.h"
#include "ops/core/bind_context.h"

namespace parallax::runtime {

struct NodeEvent {
  const Graph& graph;
  const Node& node;
  std::string_view kernel;  // "" for control flow
  double start_us = 0;      // steady clock
  double end_us = 0;
  std::span<const ops::TensorInfo> inputs;
  std::span<const ops::TensorInfo> outputs;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnNode(const NodeEvent& event) = 0;
};

}  // namespace parallax::runtime
