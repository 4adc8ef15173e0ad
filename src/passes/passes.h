// Graph passes: rewrites that keep every result.
//
// Role:       Optimize runs once after import; sessions and analyses see the rewritten graph. Lower
//             runs when a plan is made, on a copy whose shapes are known, and gives what is executed.
// Ownership:  each pass edits the graph in place; Graph::Verify holds before and after.
// Threads:    pure.
// Cost:       each pass is O(V + E), constant folding plus the work of what it folds.
// Invariants: graph inputs, outputs and their names stay. Optimize keeps results to the bit; what
//             the passes of Lower change by rounding stands in each one's contract.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "ops/core/inference.h"

namespace parallax::passes {

// All passes in order.
Result<void> Optimize(Model* model);

// Evaluates nodes whose inputs are constants, and what shape inference already knows. Results that
// would be larger than their inputs and than kMaxFoldedBytes stay nodes.
Result<void> FoldConstants(Graph* graph);
inline constexpr int64_t kMaxFoldedBytes = int64_t{1} << 20;

// Lets readers of Identity, and of Dropout that only passes its input on, read the source instead.
void RemoveIdentities(Graph* graph);

// Drops nodes whose outputs nobody reads, and constants nobody reads.
void RemoveDeadCode(Graph* graph);

// Rewrites weights once for a session: see fold_affine.cc.
Result<void> FoldAffine(Graph* graph);

// Makes `graph`, whose inference at the shapes of a plan is `known`, the graph to execute there:
// everything known folded in, then fusion and layout.
Result<void> Lower(Graph* graph, const ops::Inference& known);

// Makes `graph` what a plan places on processors: everything known folded in, before fusion and layout.
Result<void> FoldKnown(Graph* graph, const ops::Inference& known);

// Types and constants of the inference become the graph's own.
void Specialize(Graph* graph, const ops::Inference& known);
// One file each, with its contract on top.
void SimplifyMoves(Graph* graph);
void NameActivations(Graph* graph);
void NameLayerNorm(Graph* graph);
void FuseAttention(Graph* graph);
void FuseMatMul(Graph* graph);
void FuseConv(Graph* graph);
Result<void> UseChannelsLast(Graph* graph);
void FuseConvChain(Graph* graph);
void JoinSources(Graph* graph);

}  // namespace parallax::passes
