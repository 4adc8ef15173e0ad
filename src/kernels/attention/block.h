// AttendBlock: one block of queries against all keys, the unit of work of Attention.
//
// Role:       internal to attention: attention.cc cuts the entries into blocks, block.cc computes
//             one on the running CPU's best target.
// Ownership:  borrows every pointer for the call.
// Threads:    pure apart from Y and the workspace, which belong to the calling worker.
// Cost:       see attention.h; allocates nothing.
// Invariants: what is computed for a query depends on the shape and the target alone.
//
// Everything is kept with queries across the lanes of vectors: Q is transposed once for the block
// into Q'[depth][width], scores are S[key][width], so that maxima, exponentials and sums are plain
// operations between vectors, and K and V are read where they lie: K element by element, V in rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.h"

namespace parallax::kernels {

// Queries of a block at most; keys that it meets at a time. S takes 32 KB, Q' 16 KB at depth 64; K
// and V stream from L2, two bytes for each step of 64 FLOPs.
inline constexpr int64_t kBlockQueries = 64;
inline constexpr int64_t kBlockKeys = 128;

struct AttentionBlock {
  const AttentionShape* shape = nullptr;
  int64_t rows = 0;  // 1 to kBlockQueries
  // At the block's first query, of the entry.
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* y = nullptr;
  const float* masks[kAttentionMasks] = {};  // also at the block's first query
  float scale = 1.0f;
  float* workspace = nullptr;  // AttentionBlockFloats, 64-byte aligned
};
void AttendBlock(const AttentionBlock& block);

size_t AttentionBlockFloats(const AttentionShape& shape);

// Lanes of a vector of f32.
int64_t AttentionLanes();

}  // namespace parallax::kernels
