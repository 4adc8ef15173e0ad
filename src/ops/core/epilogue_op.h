// The epilogue of fused operators: attributes that say what follows a product or convolution.
//
// Role:       FusedConv, FusedMatMul. Passes write the attributes, the operators read them.
// Threads:    pure.
// Invariants: `activation` is the name of an ai.onnx operator of one input, "" for none, with its
//             parameters in `activation_alpha` and `activation_beta` (Clip: low and high). Its result
//             is multiplied by `output_scale` (1 where left out) and `output_shift` is added.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "kernels/epilogue.h"
#include "ops/core/node_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

std::vector<AttributeDef> EpilogueAttributes();
// Without the residual. Error: an activation nobody knows.
Result<kernels::Epilogue> ReadEpilogue(const NodeContext& c);
Result<kernels::Epilogue> MakeEpilogue(std::string_view activation, float alpha, float beta);

// An activation as attributes.
struct FusedActivation {
  std::string name;
  float alpha = 0, beta = 0;
};
// What the node computes elementwise from its input 0, if an epilogue can do that. Clip's bounds
// must be attributes or constants of `graph`.
std::optional<FusedActivation> ActivationOf(const Graph& graph, const Node& node);
void SetActivation(Node* fused, const FusedActivation& activation);

}  // namespace parallax::ops
