// Attention: Y[m,e] = softmax over n (scale * Q[m,:] . K[n,:] + masks[m,n]) * V[n,e] in f32, for many
// heads and batch entries, without a matrix of scores.
//
// Role:       parallax::Attention. A block of queries meets the keys block by block and keeps its
//             running maximum, sum and weighted values ("online softmax"); few queries (decoding)
//             are matrix-vector products that read K and V once.
// Ownership:  borrows every pointer for the call. A packed mask is plain memory of the caller in a
//             layout of the running CPU's best target: never store it on disk.
// Threads:    pure apart from Y; one call uses one Team.
// Cost:       2 m n (depth + value_depth) FLOPs an entry, and an exponential a score, some twelve
//             operations; allocates nothing.
// Invariants: the same bits for every team size. As ONNX's MatMul, Softmax, MatMul: a row whose
//             scores are all -infinity, or one of which is NaN or +infinity, is NaN, or zero with
//             RowsOfNaN::kZero; n == 0 gives zeros. Weights below e^-87 of the row's largest are 0.
// Source:     Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
//             "FlashAttention" (2022).
// Example:
//   // Q, K, V and Y are [sequence, heads, depth], one batch entry.
//   AttentionShape s{.m = 128, .n = 128, .depth = 64, .value_depth = 64, .scale = 0.125f};
//   s.q = {.row = 768}; s.k = {.row = 768}; s.v = {.row = 768}; s.y = {.row = 768};
//   s.batch.rank = 1;
//   s.batch.extents[0] = 12;
//   s.batch.q[0] = s.batch.k[0] = s.batch.v[0] = s.batch.y[0] = 64;
//   AttentionPlan plan = PlanAttention(s);
//   Attention(plan, {.q = q, .k = k, .v = v, .y = y}, workspace, team);
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

inline constexpr int kAttentionMasks = 2;

// Elements between neighbours along the sequence and along the depth.
struct AttentionOperand {
  int64_t row = 0;
  int64_t depth = 1;
};

// An additive term of the scores; strides of 0 broadcast.
struct AttentionMask {
  bool present = false;
  bool packed = false;  // by PackAttentionMask: the strides here are not used
  int64_t row = 0;      // along queries
  int64_t key = 0;      // along keys
};

// Batch axes, heads among them, outermost first, and the distance in floats between neighbours of
// each operand along each. Strides of a packed mask count floats of packed memory.
struct AttentionBatch {
  int rank = 0;  // 0: one entry
  int64_t extents[kMaxRank] = {};
  int64_t q[kMaxRank] = {};
  int64_t k[kMaxRank] = {};
  int64_t v[kMaxRank] = {};
  int64_t y[kMaxRank] = {};
  int64_t masks[kAttentionMasks][kMaxRank] = {};
  int64_t scales[kMaxRank] = {};
};

enum class RowsOfNaN : uint8_t { kNaN, kZero };

struct AttentionShape {
  int64_t m = 0, n = 0;  // queries and keys
  int64_t depth = 0, value_depth = 0;
  AttentionOperand q = {}, k = {}, v = {}, y = {};  // REQUIRES: v.depth == 1, y.depth == 1
  float scale = 1.0f;
  // Cosine attention: rows of Q and K are divided by max(norm, epsilon). REQUIRES: k.depth == 1.
  bool normalize = false;
  float epsilon = 0.0f;
  AttentionMask masks[kAttentionMasks] = {};
  RowsOfNaN rows_of_nan = RowsOfNaN::kNaN;
  AttentionBatch batch = {};
};

enum class AttentionPath : uint8_t {
  kEmpty,   // nothing to write
  kZero,    // no keys
  kRows,    // few queries: a matrix-vector product each
  kBlocks,  // blocks of queries against blocks of keys
};

// A mask that several entries share, transposed into the workspace before they start.
struct SharedMask {
  int64_t matrices = 0;  // 0: not shared
  int64_t row = 0;       // strides of the original
  int64_t batch[kMaxRank] = {};
  size_t offset = 0;  // in the workspace
};

struct AttentionPlan {
  AttentionShape shape;  // with shared masks as packed ones
  AttentionPath path = AttentionPath::kEmpty;
  int64_t entries = 1;          // product of the batch extents
  int64_t rows_per_block = 0;   // queries
  int64_t row_blocks = 0;       // of an entry
  int64_t blocks_per_task = 1;  // row blocks, of one entry after the other
  SharedMask shared[kAttentionMasks] = {};
  size_t shared_bytes = 0;
  size_t worker_bytes = 0;   // workspace slice of one worker, after the shared part
  const char* name() const;  // "attention_blocks"...
};

// Pure function of the shape (and of the running CPU's vector width).
AttentionPlan PlanAttention(const AttentionShape& shape);

// Bytes of workspace for a team of `team_size`; the workspace must be 64-byte aligned.
size_t AttentionWorkspaceBytes(const AttentionPlan& plan, int team_size);

struct AttentionArgs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* y = nullptr;  // overlaps no input
  const float* masks[kAttentionMasks] = {};
  const float* scales = nullptr;  // one factor of the scores for each entry, or null
};
void Attention(const AttentionPlan& plan, const AttentionArgs& args, void* workspace, Team& team);

// A constant mask, laid out as blocks of queries add it: [n][m rounded up to whole vectors] for
// each of `matrices` [m, n] matrices that follow each other. The source may be misaligned.
int64_t PackedAttentionMaskFloats(int64_t m, int64_t n);  // of one matrix
void PackAttentionMask(int64_t matrices, int64_t m, int64_t n, const void* mask, float* packed);

}  // namespace parallax::kernels
