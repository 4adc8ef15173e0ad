// ConvChain: convolutions one after the other, a few rows at a time, so that what stands between them
// never leaves the cache.
//
//   1x1 -> depthwise -> 1x1, or two neighbours of these: the blocks of mobile networks, whose inner
//   tensors are several times as large as what goes in and out.
//
// Role:       what passes make of FusedConv nodes whose intermediate results nobody else reads.
// Ownership:  borrows every pointer for the call; weights are packed as for the stages' own plans.
// Threads:    pure apart from the output; one call uses one Team.
// Cost:       allocates nothing. A worker keeps the last rows of every inner tensor in its slice of
//             the workspace, at most about kChainBytes; where the output is cut into tasks the rows
//             that two tasks need are computed twice.
// Invariants: the bits of every element are those of the stages run one after the other as Conv,
//             for every team size.
// Example:
//   ConvChainPlan plan = PlanConvChain({expand, depthwise, project});   // where SupportsConvChain
//   for (i...) PackConvWeights(plan.stages[i], weights[i], packed[i]);
//   ConvChain(plan, x, {{packed[0], bias[0], relu6}, ...}, y, workspace, team);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/conv/conv.h"

namespace parallax::kernels {

// Of inner rows: what fits, with weights, into the L2 cache of a small core.
inline constexpr int64_t kChainBytes = 192 << 10;
inline constexpr size_t kMaxStages = 3;

struct ConvChainPlan {
  std::vector<ConvPlan> stages;
  int64_t rows_per_step = 0;           // of the output
  std::vector<int64_t> buffer_floats;  // of the rows kept behind each stage but the last
  size_t worker_bytes = 0;             // workspace slice of one worker
  const char* name() const { return "conv_chain"; }
};

// Whether the stages, each the next one's input, can be a chain: 2 to kMaxStages, rank 2, channels
// last, each 1x1 (stride 1, no padding) or depthwise, with extents of at least 1.
bool SupportsConvChain(std::span<const ConvShape> stages);

// Pure function of the shapes. REQUIRES: SupportsConvChain.
ConvChainPlan PlanConvChain(std::span<const ConvShape> stages);

// Bytes of 64-byte aligned workspace for a team of `team_size`.
size_t ConvChainWorkspaceBytes(const ConvChainPlan& plan, int team_size);

struct ConvStage {
  const void* packed = nullptr;
  const float* bias = nullptr;  // or null
  Epilogue epilogue = {};       // a residual with the last stage only
};

// `input` [batch, rows, columns, channels] of the first stage, `output` of the last one.
void ConvChain(const ConvChainPlan& plan, const float* input, std::span<const ConvStage> stages,
               float* output, void* workspace, Team& team);

}  // namespace parallax::kernels
