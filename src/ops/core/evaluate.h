// Evaluates one node on given tensors, outside any session.
//
// Role:       constant folding, shape arithmetic, and the reference run of operator cases.
// Ownership:  results own their memory, from `allocator`.
// Threads:    pure; uses the caller's team.
#pragma once

#include <span>
#include <vector>

#include "base/allocator.h"
#include "ir/graph.h"
#include "threads/team.h"

namespace parallax::ops {

// Infers, binds and runs `node` (no control flow). `inputs` go with node.inputs; a null entry is a
// left-out input. `constant_inputs` says whether bind may treat them as constants (and pack them).
// The result has an undefined tensor for each left-out output. Errors name the node of `graph`.
Result<std::vector<Tensor>> Evaluate(const Graph& graph, const Node& node,
                                     std::span<const Tensor* const> inputs, Team& team,
                                     Allocator& allocator = SystemAllocator(),
                                     bool constant_inputs = true);

}  // namespace parallax::ops
