#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "kernels/attention/block.h"
#include "kernels/gemm/gemv.h"
#include "kernels/gemm/panel.h"
#include "kernels/norm/norm_f32.h"

namespace parallax::kernels {
namespace {

// This many queries or fewer are cheaper one by one than as a block.
constexpr int64_t kRowsAtOnce = 2;
// A task of fewer multiply-adds (some microseconds) is not worth handing to a thread.
constexpr double kMinTaskMacs = 1 << 19;

// A mask that entries share is transposed once for all of them, up to this size: larger ones are as
// quick block by block.
constexpr int64_t kSharedMaskFloats = 1 << 19;
// Keys of it that a task transposes.
constexpr int64_t kSharedKeys = 64;

struct Offsets {
  int64_t q = 0, k = 0, v = 0, y = 0, masks[kAttentionMasks] = {}, scale = 0;
};

Offsets EntryOffsets(const AttentionBatch& batch, int64_t entry) {
  Offsets o;
  for (int i = batch.rank - 1; i >= 0; --i) {
    const int64_t at = entry % batch.extents[i];
    entry /= batch.extents[i];
    o.q += at * batch.q[i];
    o.k += at * batch.k[i];
    o.v += at * batch.v[i];
    o.y += at * batch.y[i];
    for (int m = 0; m < kAttentionMasks; ++m) o.masks[m] += at * batch.masks[m][i];
    o.scale += at * batch.scales[i];
  }
  return o;
}

// The pointers of one entry and its factor of the scores.
AttentionArgs EntryArgs(const AttentionPlan& plan, const AttentionArgs& args, int64_t entry,
                        float* scale) {
  const Offsets o = EntryOffsets(plan.shape.batch, entry);
  AttentionArgs at = args;
  at.y += o.y;
  if (plan.path == AttentionPath::kZero) return at;  // K and V may be null
  at.q += o.q;
  at.k += o.k;
  at.v += o.v;
  for (int m = 0; m < kAttentionMasks; ++m) {
    if (plan.shape.masks[m].present) at.masks[m] += o.masks[m];
  }
  *scale = plan.shape.scale * (args.scales != nullptr ? args.scales[o.scale] : 1.0f);
  return at;
}

// `entry` by one matrix-vector product a query and side.
void Rows(const AttentionShape& s, const AttentionArgs& args, float scale, float* workspace) {
  float* const query = workspace;
  float* const scores = workspace + RoundUp(s.depth, int64_t{16});
  for (int64_t row = 0; row < s.m; ++row) {
    for (int64_t i = 0; i < s.depth; ++i) {
      query[i] = scale * args.q[row * s.q.row + i * s.q.depth];
    }
    if (s.k.depth == 1) {
      DotRows(args.k, s.k.row, s.n, s.depth, query, scores);
    } else {
      SumRows(args.k, s.k.depth, s.depth, s.n, query, scores);
    }
    for (int m = 0; m < kAttentionMasks; ++m) {
      const AttentionMask& mask = s.masks[m];
      if (!mask.present) continue;
      const float* at = args.masks[m] + row * mask.row;
      for (int64_t n = 0; n < s.n; ++n) scores[n] += at[n * mask.key];
    }
    SoftmaxRowF32(SoftmaxKind::kSoftmax, scores, scores, s.n);
    float* const y = args.y + row * s.y.row;
    if (s.rows_of_nan == RowsOfNaN::kZero && std::isnan(scores[0])) {
      std::fill(y, y + s.value_depth, 0.0f);
    } else {
      SumRows(args.v, s.v.row, s.n, s.value_depth, scores, y);
    }
  }
}

void Block(const AttentionPlan& plan, const AttentionArgs& args, float scale, int64_t first,
           float* workspace) {
  const AttentionShape& s = plan.shape;
  AttentionBlock block;
  block.shape = &s;
  block.rows = std::min(plan.rows_per_block, s.m - first);
  block.q = args.q + first * s.q.row;
  block.k = args.k;
  block.v = args.v;
  block.y = args.y + first * s.y.row;
  for (int m = 0; m < kAttentionMasks; ++m) {
    if (!s.masks[m].present) continue;
    block.masks[m] = args.masks[m] + first * (s.masks[m].packed ? 1 : s.masks[m].row);
  }
  block.scale = scale;
  block.workspace = workspace;
  AttendBlock(block);
}

// Gives masks that several entries share their places in the workspace.
void ShareMasks(AttentionPlan& plan) {
  AttentionBatch& batch = plan.shape.batch;
  for (int i = 0; i < kAttentionMasks; ++i) {
    AttentionMask& mask = plan.shape.masks[i];
    if (!mask.present || mask.packed || mask.row == 0 || mask.key != 1) continue;
    const int64_t floats = PackedAttentionMaskFloats(plan.shape.m, plan.shape.n);
    int64_t matrices = 1, strides[kMaxRank] = {};
    for (int axis = batch.rank - 1; axis >= 0; --axis) {
      if (batch.masks[i][axis] == 0) continue;
      strides[axis] = matrices * floats;
      matrices *= batch.extents[axis];
    }
    if (matrices == plan.entries || matrices * floats > kSharedMaskFloats) continue;
    SharedMask& shared = plan.shared[i];
    shared.matrices = matrices;
    shared.row = mask.row;
    std::copy(batch.masks[i], batch.masks[i] + kMaxRank, shared.batch);
    shared.offset = plan.shared_bytes;
    plan.shared_bytes += static_cast<size_t>(RoundUp(matrices * floats * 4, int64_t{64}));
    mask.packed = true;
    std::copy(strides, strides + kMaxRank, batch.masks[i]);
  }
}

// Transposes shared mask `i` into its place, which it returns.
const float* TransposeShared(const AttentionPlan& plan, int i, const float* mask, void* workspace,
                             Team& team) {
  const AttentionShape& s = plan.shape;
  const SharedMask& shared = plan.shared[i];
  float* const to = reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + shared.offset);
  const int64_t width = PanelColumns(s.m), chunks = CeilDiv(s.n, kSharedKeys);
  team.Run(shared.matrices * chunks, [&](int64_t task, int) {
    int64_t matrix = task / chunks, from = 0;
    float* const out = to + matrix * s.n * width;
    for (int axis = s.batch.rank - 1; axis >= 0; --axis) {
      if (shared.batch[axis] == 0) continue;
      from += matrix % s.batch.extents[axis] * shared.batch[axis];
      matrix /= s.batch.extents[axis];
    }
    const int64_t key = task % chunks * kSharedKeys;
    PackPanelTranspose(mask + from + key, shared.row, std::min(kSharedKeys, s.n - key), s.m, width,
                       out + key * width);
  });
  return to;
}

bool ByRows(const AttentionShape& s) {
  if (s.m > kRowsAtOnce || s.normalize || s.depth == 0) return false;
  for (const AttentionMask& m : s.masks) {
    if (m.packed) return false;
  }
  return s.k.depth == 1 || s.k.row == 1;
}

}  // namespace

const char* AttentionPlan::name() const {
  switch (path) {
    case AttentionPath::kEmpty:
      return "attention_empty";
    case AttentionPath::kZero:
      return "attention_zero";
    case AttentionPath::kRows:
      return "attention_rows";
    case AttentionPath::kBlocks:
      return "attention_blocks";
  }
  return "attention";
}

AttentionPlan PlanAttention(const AttentionShape& shape) {
  AttentionPlan plan;
  plan.shape = shape;
  const AttentionShape& s = plan.shape;
  for (int i = 0; i < s.batch.rank; ++i) plan.entries *= s.batch.extents[i];
  if (plan.entries == 0 || s.m == 0 || s.value_depth == 0) return plan;
  if (s.n == 0) {
    plan.path = AttentionPath::kZero;
    plan.rows_per_block = s.m;
    plan.row_blocks = 1;
    return plan;
  }
  if (ByRows(s)) {
    plan.path = AttentionPath::kRows;
    plan.rows_per_block = s.m;
    plan.row_blocks = 1;
    plan.worker_bytes =
        static_cast<size_t>(RoundUp(s.depth, int64_t{16}) + RoundUp(s.n, int64_t{16})) * 4;
  } else {
    plan.path = AttentionPath::kBlocks;
    ShareMasks(plan);
    const int64_t lanes = AttentionLanes();
    const int64_t vectors = CeilDiv(s.m, lanes);
    plan.row_blocks = CeilDiv(vectors, kBlockQueries / lanes);
    plan.rows_per_block = CeilDiv(vectors, plan.row_blocks) * lanes;
    plan.row_blocks = CeilDiv(s.m, plan.rows_per_block);
    plan.worker_bytes = AttentionBlockFloats(s) * 4;
  }
  const double macs = static_cast<double>(plan.rows_per_block) * static_cast<double>(s.n) *
                      static_cast<double>(s.depth + s.value_depth);
  plan.blocks_per_task = std::clamp<int64_t>(static_cast<int64_t>(kMinTaskMacs / macs), 1,
                                             plan.entries * plan.row_blocks);
  return plan;
}

size_t AttentionWorkspaceBytes(const AttentionPlan& plan, int team_size) {
  return plan.shared_bytes + plan.worker_bytes * static_cast<size_t>(team_size);
}

void Attention(const AttentionPlan& plan, const AttentionArgs& given, void* workspace, Team& team) {
  if (plan.path == AttentionPath::kEmpty) return;
  AttentionArgs args = given;
  for (int i = 0; i < kAttentionMasks; ++i) {
    if (plan.shared[i].matrices == 0) continue;
    args.masks[i] = TransposeShared(plan, i, given.masks[i], workspace, team);
  }
  const AttentionShape& s = plan.shape;
  const int64_t blocks = plan.entries * plan.row_blocks;
  team.Run(CeilDiv(blocks, plan.blocks_per_task), [&](int64_t task, int worker) {
    float* const buffer =
        reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + plan.shared_bytes +
                                 plan.worker_bytes * static_cast<size_t>(worker));
    const int64_t last = std::min((task + 1) * plan.blocks_per_task, blocks);
    for (int64_t block = task * plan.blocks_per_task; block < last; ++block) {
      float scale = 1.0f;
      const AttentionArgs at = EntryArgs(plan, args, block / plan.row_blocks, &scale);
      if (plan.path == AttentionPath::kZero) {
        for (int64_t r = 0; r < s.m; ++r) {
          std::fill(at.y + r * s.y.row, at.y + r * s.y.row + s.value_depth, 0.0f);
        }
      } else if (plan.path == AttentionPath::kRows) {
        Rows(s, at, scale, buffer);
      } else {
        Block(plan, at, scale, block % plan.row_blocks * plan.rows_per_block, buffer);
      }
    }
  });
}

int64_t PackedAttentionMaskFloats(int64_t m, int64_t n) { return n * PanelColumns(m); }

void PackAttentionMask(int64_t matrices, int64_t m, int64_t n, const void* mask, float* packed) {
  const int64_t floats = PackedAttentionMaskFloats(m, n);
  for (int64_t i = 0; i < matrices; ++i) {
    PackPanelTranspose(static_cast<const std::byte*>(mask) + i * m * n * 4, n, n, m,
                       PanelColumns(m), packed + i * floats);
  }
}

}  // namespace parallax::kernels
