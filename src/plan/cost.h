// Cost of a whole graph: FLOPs and bytes of every node, bodies included.
//
// Role:       `analyze`; later the partitioner's input.
// Ownership:  values.
// Threads:    pure.
// Invariants: an If counts its costlier side; a Loop counts its body once for every trip when the
//             trip count is known, once otherwise; nodes whose shapes depend on data count 0 and
//             are listed as unknown.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ops/core/inference.h"

namespace parallax::plan {

struct GraphCost {
  double flops = 0;  // a multiply-add counts 2
  double bytes = 0;  // read and written
  std::map<std::string, double> flops_by_op;
  int64_t unknown_nodes = 0;  // shapes not known without running
};

// `inputs` and `captures` as for ops::InferGraph.
Result<GraphCost> CostOf(const Graph& graph, std::span<const ops::InferInput> inputs,
                         std::span<const ops::InferInput> captures = {});

}  // namespace parallax::plan
