// Branches: chains of units that can run side by side, and the layers they stand in.
//
//   a unit is     Sequential     at most one producer, at most one consumer
//                 Splitter       at most one producer, several consumers
//                 Merger         several producers, at most one consumer
//                 Split-Merge    several of both; and every If, Loop and Scan
//
// A branch is a maximal chain. It starts at a Merger, at a Split-Merge, at what has no producer and at what
// follows a Splitter or Split-Merge; it goes on while the last unit has one consumer, which has one producer and
// is no control flow. A Splitter ends it, a Split-Merge is alone. A branch's layer is the length of the
// longest path of branches that lead to it.
//
// Source:     algorithm 1 of the parallax paper.
// Ownership:  values.
// Threads:    pure.
// Cost:       O(V + E).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "plan/dag.h"

namespace parallax::plan {

// What is placed as one: a node on the CPU, or a region of nodes on a delegate.
struct Unit {
  int32_t region = -1;        // -1: a node on the CPU
  bool control_flow = false;  // If, Loop or Scan on the CPU
  std::vector<NodeId> nodes;  // in the graph's order
};

struct Units {
  std::vector<Unit> units;
  std::vector<int32_t> of_node;  // by node
  Dag dag;  // of distinct units; constants and inputs of the graph do not count
};

// `region_of[node]` >= 0: the region it belongs to, any numbers; -1: the CPU. Empty: no regions. Units are
// numbered by their first node. An error where regions lead back into each other.
Result<Units> MakeUnits(const Graph& graph, std::span<const int32_t> region_of = {});

enum class UnitKind : uint8_t { kSequential, kSplitter, kMerger, kSplitMerge };

struct Branch {
  std::vector<int32_t> units;
  int32_t layer = 0;
};

struct Branches {
  std::vector<UnitKind> kinds;  // by unit
  std::vector<int32_t> of_unit;
  std::vector<Branch> branches;  // each behind those it depends on
  int32_t layers = 0;
  int32_t parallel_layers = 0;  // of two branches and more
  int32_t max_branches = 0;     // of one layer
};

// `control_flow` by vertex, or empty. REQUIRES: no cycle.
Branches FindBranches(const Dag& dag, const std::vector<bool>& control_flow = {});
Branches FindBranches(const Units& units);

}  // namespace parallax::plan
