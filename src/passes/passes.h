// Graph passes: rewrites that keep every result.
//
// Role:       run once after import; sessions and analyses see the rewritten graph.
// Ownership:  each pass edits the graph in place; Graph::Verify holds before and after.
// Threads:    pure.
// Cost:       each pass is O(V + E), constant folding plus the work of what it folds.
// Invariants: graph inputs, outputs and their names stay; results stay the same bits.
#pragma once

#include "base/result.h"
#include "ir/graph.h"

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

}  // namespace parallax::passes
