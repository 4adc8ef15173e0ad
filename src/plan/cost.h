// Cost of a whole graph: FLOPs and bytes of every node, bodies included.
//
// Role:       `analyze`; later the partitioner's input.
// Ownership:  values.
// Threads:    pure.
// Invariants: an If counts the side it takes when its condition is known, else its costlier side;
//             a Loop counts its body once for every trip when their number is known, that is the
//             trip count and that no condition ends it early, else once; nodes whose shapes are not
//             known count 0. The result says how many nodes of each kind were guessed so.
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
  int64_t unknown_nodes = 0;  // shapes not known without running: count 0
  int64_t open_loops = 0;     // trips not known: the body counts once
  int64_t open_ifs = 0;       // condition not known: the costlier side counts
};

// `inputs` and `captures` as for ops::InferGraph. An input whose value is known beforehand (a trip
// count, a shape) is best given as dim_values: a constant would fold what is computed from it away.
Result<GraphCost> CostOf(const Graph& graph, std::span<const ops::InferInput> inputs,
                         std::span<const ops::InferInput> captures = {});
// The same where the graph's inference at those inputs is known.
Result<GraphCost> CostOf(const Graph& graph, const ops::Inference& inference);

}  // namespace parallax::plan
