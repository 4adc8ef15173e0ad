// Control-flow operators: which bodies run, how often, on what.
//
// Role:       called by GraphRunner for steps whose operator is control flow.
// Ownership:  results are fresh tensors.
// Threads:    as GraphRunner.
#pragma once

#include <span>
#include <vector>

#include "runtime/environment.h"
#include "runtime/program.h"

namespace parallax::runtime {

// Runs `step`'s node of `graph` on `inputs` (explicit ones first, then captures; an undefined
// tensor is a left-out input). `output_types`, inferred for node.outputs, shape the scan outputs of
// a Loop without iterations. The result goes with node.outputs.
Result<std::vector<Tensor>> RunControlFlowNode(const Graph& graph, Step* step,
                                               std::span<const Tensor> inputs,
                                               std::span<const TensorType> output_types,
                                               Environment& environment);

}  // namespace parallax::runtime
