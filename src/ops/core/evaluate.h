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
#include "ops/core/bind_context.h"
#include "threads/team.h"

namespace parallax::ops {

struct EvaluateOptions {
  Allocator* allocator = &SystemAllocator();
  bool precise = false;        // BindContext::precise
  PackCache* packs = nullptr;  // null: packings are made for this call only
  // Bit i: bind may treat input i as a constant (and pack it). Inference sees every value anyway.
  uint64_t constant_inputs = ~uint64_t{0};
};

// Infers, binds and runs `node` (no control flow). `inputs` go with node.inputs; a null entry is a
// left-out input. The result has an undefined tensor for each left-out output. Errors name the
// node of `graph`.
Result<std::vector<Tensor>> Evaluate(const Graph& graph, const Node& node,
                                     std::span<const Tensor* const> inputs, Team& team,
                                     const EvaluateOptions& options = {});

}  // namespace parallax::ops
