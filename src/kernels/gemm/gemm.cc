#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/gemm/gemv.h"
#include "kernels/gemm/panel.h"

namespace parallax::kernels {
namespace {

// A task of fewer multiply-adds than this (some microseconds) is not worth handing to a thread;
// more tasks than this only cost packing.
constexpr double kMinTaskMacs = 1 << 16;
constexpr int64_t kMaxTasks = 64;
// A task has at least kTallRows rows, because its columns of B come from far away once, and because
// packing an element of B costs about as much as 4 rows of products with it. Where that leaves fewer
// tasks than kGoodTasks it has fewer columns, and where they are still fewer than kFewTasks and
// nothing is packed, fewer rows down to kMinRows: threads that wait cost more than reading twice.
constexpr int64_t kTallRows = 96;
constexpr int64_t kMinRows = 32;
constexpr int64_t kGoodTasks = 24;
constexpr int64_t kFewTasks = 16;
// What every core can keep in its own cache beside the rows that it multiplies with it.
constexpr int64_t kNearBytes = 512 << 10;
// B is used where it lies while its rows fit in L1 together, or when it is read at most twice.
constexpr int64_t kDirectBytes = 32 << 10;
// Outputs a GEMV task computes; their sums live on the stack.
constexpr int64_t kVectorOutputs = 512;

struct Offsets {
  int64_t a = 0, b = 0, c = 0, bias = 0;
};

Offsets EntryOffsets(const GemmBatch& batch, int64_t entry) {
  Offsets o;
  for (int i = batch.rank - 1; i >= 0; --i) {
    const int64_t at = entry % batch.extents[i];
    entry /= batch.extents[i];
    o.a += at * batch.a_strides[i];
    o.b += at * batch.b_strides[i];
    o.c += at * batch.c_strides[i];
    o.bias += at * batch.bias_strides[i];
  }
  return o;
}

// The epilogue as tiles take it, without C.
TileArgs TileEpilogue(const GemmEpilogue& e) {
  TileArgs t;
  t.alpha = e.alpha;
  t.beta = e.beta;
  if (e.beta != 0.0f) {
    if (e.bias != nullptr && e.bias_axis == BiasAxis::kColumn) t.column_bias = e.bias;
    if (e.bias != nullptr && e.bias_axis != BiasAxis::kColumn) t.row_bias = e.bias;
    t.row_bias_step = e.bias_axis == BiasAxis::kScalar ? 0 : 1;
    t.residual = e.then.first_residual();
  }
  t.clamp = e.then.clamps();
  t.lo = e.then.low();
  t.hi = e.then.high();
  return t;
}

bool IsVectorPath(GemmPath path) {
  return path == GemmPath::kSumRows || path == GemmPath::kDotRows;
}

GemmPath ChoosePath(const GemmShape& s, int64_t batch, const TileGeometry& tile) {
  if (batch == 0 || s.m == 0 || s.n == 0) return GemmPath::kEmpty;
  if (s.k == 0) return GemmPath::kEpilogue;
  if (s.packed == PackedOperand::kB) return GemmPath::kPackedB;
  if (s.packed == PackedOperand::kNone) {
    if (s.m == 1) return s.trans_b == Transpose::kNo ? GemmPath::kSumRows : GemmPath::kDotRows;
    if (s.n == 1) return s.trans_a == Transpose::kNo ? GemmPath::kDotRows : GemmPath::kSumRows;
  }
  const bool small = s.k * s.ldb * 4 <= kDirectBytes || s.m <= 2 * tile.rows;
  return s.trans_b == Transpose::kNo && small ? GemmPath::kDirectB : GemmPath::kPackB;
}

// Cuts C into row_tasks x column_tasks blocks, the same for every team.
void CutTasks(GemmPlan& plan, const TileGeometry& tile) {
  const GemmShape& s = plan.shape;
  const double macs =
      static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const auto want = std::clamp<int64_t>(
      static_cast<int64_t>(macs * static_cast<double>(plan.batch) / kMinTaskMacs), 1, kMaxTasks);
  // As many parts as make `tasks` of the whole, all `others` being cut already.
  const auto parts = [&](int64_t tasks, int64_t others, int64_t most) {
    return std::clamp<int64_t>(CeilDiv(std::min(want, tasks), plan.batch * others), 1,
                               std::max<int64_t>(most, 1));
  };
  const int64_t widest = std::max(kBlockColumns / tile.columns, int64_t{1}) * tile.columns;
  const int64_t panels = s.m == 1 ? kRowPanels : 1;  // that one row takes together

  int64_t column_tasks = CeilDiv(s.n, widest);
  plan.row_tasks = parts(kMaxTasks, column_tasks, s.m / kTallRows);
  column_tasks = std::max(column_tasks,
                          parts(kGoodTasks, plan.row_tasks, CeilDiv(s.n, panels * tile.columns)));
  plan.column_cuts = CutPanels(tile, s.n, column_tasks, panels);
  column_tasks = plan.column_tasks();
  if (plan.path != GemmPath::kPackB) {
    plan.row_tasks = std::max(plan.row_tasks, parts(kFewTasks, column_tasks, s.m / kMinRows));
  }
  // A worker's tasks are neighbours. Along the rows it reads all of B, along the columns all of A and
  // a part of every row of C, which other cores have in their caches: the fewer bytes of the two.
  const int64_t b_bytes = s.n * s.k * 4, others = s.m * (s.k + s.n) * 4;
  plan.rows_first = plan.path != GemmPath::kPackB && b_bytes <= std::min(others, kNearBytes);
  if (plan.row_tasks * column_tasks == 1) {
    plan.entries_per_task = std::clamp<int64_t>(
        static_cast<int64_t>(kMinTaskMacs / std::max(macs, 1.0)), 1, plan.batch);
  }
}

void CutVectorTasks(GemmPlan& plan) {
  const GemmShape& s = plan.shape;
  const int64_t outputs = std::max(s.m, s.n);
  const auto want =
      static_cast<int64_t>(kMinTaskMacs / static_cast<double>(std::max<int64_t>(s.k, 1)));
  const int64_t at_once =
      std::clamp<int64_t>(RoundUp(std::max<int64_t>(want, 1), 64), 64, kVectorOutputs);
  for (int64_t first = 0; first < outputs; first += at_once) plan.column_cuts.push_back(first);
  plan.column_cuts.push_back(outputs);
  plan.row_tasks = 1;
  if (plan.column_tasks() == 1) {
    plan.entries_per_task =
        std::clamp<int64_t>(want / std::max<int64_t>(outputs, 1), 1, plan.batch);
  }
}

// Of any task.
int64_t MostColumns(const GemmPlan& plan) {
  int64_t most = 0;
  for (size_t i = 1; i < plan.column_cuts.size(); ++i) {
    most = std::max(most, plan.column_cuts[i] - plan.column_cuts[i - 1]);
  }
  return most;
}

// Transposed A is packed unless so few columns use it that it is read once or twice anyway.
bool PacksA(const GemmPlan& plan, const TileGeometry& tile) {
  return plan.shape.packed != PackedOperand::kA && plan.shape.trans_a == Transpose::kYes &&
         MostColumns(plan) > 2 * tile.columns;
}

size_t BufferBytesB(const GemmPlan& plan, const TileGeometry& tile) {
  const int64_t depth = std::min(plan.shape.k, kBlockK);
  if (plan.path == GemmPath::kPackB) return PanelBytesB(depth, MostColumns(plan));
  if (plan.path == GemmPath::kDirectB && plan.shape.n % tile.lanes != 0) {
    return PanelBytesB(depth, tile.lanes);
  }
  return 0;
}

// What FinishBlock gets as the residual of a block `at` floats into C.
const float* LastResidual(const Epilogue& e, int64_t at) {
  return e.residual_last && e.residual != nullptr ? e.residual + at : nullptr;
}

// One output vector of a GEMV: `outputs` values from `begin`, `step` apart in C.
void VectorTask(const GemmPlan& plan, const float* a, const float* b, float* c, const TileArgs& e,
                int64_t begin, int64_t outputs, const Epilogue& then, int64_t c_offset,
                float* gathered) {
  const GemmShape& s = plan.shape;
  const bool row = s.m == 1;  // C is a row: the matrix is B
  const float* matrix = row ? b : a;
  const int64_t ld = row ? s.ldb : s.lda;
  const float* x = row ? a : b;
  const int64_t x_step =
      row ? (s.trans_a == Transpose::kNo ? 1 : s.lda) : (s.trans_b == Transpose::kNo ? s.ldb : 1);
  if (x_step != 1) {
    for (int64_t i = 0; i < s.k; ++i) gathered[i] = x[i * x_step];
    x = gathered;
  }
  float sums[kVectorOutputs];
  if (plan.path == GemmPath::kSumRows) {
    SumRows(matrix + begin, ld, s.k, outputs, x, sums);
  } else {
    DotRows(matrix + begin * ld, ld, outputs, s.k, x, sums);
  }
  // A bias along C's only long axis varies; along the other one it is its first value.
  const float* bias = row ? e.column_bias : e.row_bias;
  const float* first = row ? e.row_bias : e.column_bias;
  const int64_t bias_step = row ? 1 : e.row_bias_step;
  const int64_t step = row ? 1 : s.ldc;
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t at = (begin + i) * step;
    float add = first != nullptr ? first[0] : 0.0f;
    if (bias != nullptr) add = bias[(begin + i) * bias_step];
    if (e.residual != nullptr) add += e.residual[at];
    float v = e.alpha * sums[i] + e.beta * add;
    if (e.clamp) {
      v = v < e.lo ? e.lo : v;
      v = v > e.hi ? e.hi : v;
    }
    c[at] = v;
  }
  // A row of outputs, or a column of rows of one.
  const int64_t at = begin * step;
  FinishBlock(then, c + at, LastResidual(then, c_offset + at), row ? 1 : outputs, row ? outputs : 1,
              row ? outputs : step);
}

// One block of C, pointers already at the batch entry.
void BlockTask(const GemmPlan& plan, const float* a, const float* b, float* c, const TileArgs& e,
               int64_t row_task, int64_t column_task, const Epilogue& then, int64_t c_offset,
               bool packs_a, size_t b_bytes, std::byte* buffer) {
  const GemmShape& s = plan.shape;
  PanelTask t;
  const TileGeometry tile = GetTileGeometry();
  const int64_t m0 = CutRows(tile, s.m, plan.row_tasks, row_task);
  const int64_t n0 = plan.column_cuts[static_cast<size_t>(column_task)];
  t.rows = CutRows(tile, s.m, plan.row_tasks, row_task + 1) - m0;
  t.columns = plan.column_cuts[static_cast<size_t>(column_task) + 1] - n0;
  t.k = s.k;
  if (s.packed == PackedOperand::kA) {
    t.a_panels = true;
    t.a = a + m0 * s.k;
  } else {
    t.a_row = s.trans_a == Transpose::kYes ? 1 : s.lda;
    t.a_k = s.trans_a == Transpose::kYes ? s.lda : 1;
    t.a = s.k == 0 ? a : a + m0 * t.a_row;
    if (packs_a) t.a_buffer = reinterpret_cast<float*>(buffer + b_bytes);
  }
  const auto pack = [&](int64_t k0, int64_t kn, int64_t first, int64_t nn, float* panels) {
    for (int64_t j = 0, columns; j < nn; j += columns, panels += columns * kn) {
      columns = NextPanel(tile, nn - j);
      if (s.trans_b == Transpose::kYes) {
        PackPanelTranspose(b + (first + j) * s.ldb + k0, s.ldb, kn, columns, PanelColumns(columns),
                           panels);
      } else {
        PackPanelCopy(b + k0 * s.ldb + first + j, s.ldb, kn, columns, PanelColumns(columns),
                      panels);
      }
    }
  };
  const PackBlock pack_block = pack;
  t.b_buffer = reinterpret_cast<float*>(buffer);
  switch (plan.path) {
    case GemmPath::kPackB:
      t.pack = &pack_block;
      t.pack_n0 = n0;
      break;
    case GemmPath::kDirectB:
      t.b = b + n0;
      t.b_k = s.ldb;
      break;
    default:
      t.b_panels = true;
      t.columns_after = s.n - n0 - t.columns;
      t.b_continues = (plan.rows_first || row_task + 1 == plan.row_tasks) && n0 + t.columns < s.n;
      t.b = s.k == 0 ? b : b + n0 * s.k;
      break;
  }
  t.out = e;
  t.out.c = c + m0 * s.ldc + n0;
  t.out.ldc = s.ldc;
  if (e.residual != nullptr) t.out.residual = e.residual + m0 * s.ldc + n0;
  if (e.row_bias != nullptr) t.out.row_bias = e.row_bias + m0 * e.row_bias_step;
  if (e.column_bias != nullptr) t.out.column_bias = e.column_bias + n0;
  if (then.finishes()) {
    t.finish = &then;
    t.finish_residual = LastResidual(then, c_offset + m0 * s.ldc + n0);
  }
  RunPanelTask(t);
}

}  // namespace

const char* GemmPlan::name() const {
  switch (path) {
    case GemmPath::kEmpty:
      return "gemm_empty";
    case GemmPath::kEpilogue:
      return "gemm_epilogue";
    case GemmPath::kSumRows:
      return "gemv_sum_rows";
    case GemmPath::kDotRows:
      return "gemv_dot_rows";
    case GemmPath::kDirectB:
      return "gemm_direct_b";
    case GemmPath::kPackB:
      return "gemm_pack_b";
    case GemmPath::kPackedB:
      return "gemm_packed_b";
  }
  return "gemm";
}

GemmPlan PlanGemm(const GemmShape& shape) {
  const TileGeometry tile = GetTileGeometry();
  GemmPlan plan;
  plan.shape = shape;
  GemmShape& s = plan.shape;
  if (s.lda == 0) s.lda = s.trans_a == Transpose::kYes ? s.m : s.k;
  if (s.ldb == 0) s.ldb = s.trans_b == Transpose::kYes ? s.k : s.n;
  if (s.ldc == 0) s.ldc = s.n;
  for (int i = 0; i < s.batch.rank; ++i) plan.batch *= s.batch.extents[i];

  plan.path = ChoosePath(s, plan.batch, tile);
  if (plan.path == GemmPath::kEmpty) return plan;
  if (IsVectorPath(plan.path)) {
    CutVectorTasks(plan);
    plan.worker_bytes = static_cast<size_t>(RoundUp(s.k * 4, 64));
    return plan;
  }
  CutTasks(plan, tile);
  plan.worker_bytes = BufferBytesB(plan, tile);
  if (PacksA(plan, tile)) {
    plan.worker_bytes += static_cast<size_t>(BlockHeight() * std::min(s.k, kBlockK) * 4);
  }
  return plan;
}

size_t GemmWorkspaceBytes(const GemmPlan& plan, int team_size) {
  return plan.worker_bytes * static_cast<size_t>(team_size);
}

void Gemm(const GemmPlan& plan, const float* a, const float* b, float* c,
          const GemmEpilogue& epilogue, void* workspace, Team& team) {
  if (plan.path == GemmPath::kEmpty) return;
  const TileGeometry tile = GetTileGeometry();
  const TileArgs e = TileEpilogue(epilogue);
  const bool packs_a = PacksA(plan, tile);
  const size_t b_bytes = BufferBytesB(plan, tile);
  const int64_t column_tasks = plan.column_tasks(), blocks = plan.row_tasks * column_tasks;
  const int64_t groups = CeilDiv(plan.batch, plan.entries_per_task);
  team.Run(groups * blocks, [&](int64_t task, int worker) {
    std::byte* buffer =
        static_cast<std::byte*>(workspace) + plan.worker_bytes * static_cast<size_t>(worker);
    const int64_t first = task / blocks * plan.entries_per_task;
    const int64_t last = std::min(first + plan.entries_per_task, plan.batch);
    const int64_t block = task % blocks;
    const int64_t row_task = plan.rows_first ? block / column_tasks : block % plan.row_tasks;
    const int64_t column_task = plan.rows_first ? block % column_tasks : block / plan.row_tasks;
    for (int64_t entry = first; entry < last; ++entry) {
      const Offsets o = EntryOffsets(plan.shape.batch, entry);
      TileArgs at = e;
      if (e.residual != nullptr) at.residual = e.residual + o.c;
      if (e.row_bias != nullptr) at.row_bias = e.row_bias + o.bias;
      if (e.column_bias != nullptr) at.column_bias = e.column_bias + o.bias;
      if (IsVectorPath(plan.path)) {
        const auto first_output = plan.column_cuts.begin() + column_task;
        VectorTask(plan, a + o.a, b + o.b, c + o.c, at, first_output[0],
                   first_output[1] - first_output[0], epilogue.then, o.c,
                   reinterpret_cast<float*>(buffer));
      } else {
        BlockTask(plan, a + o.a, b + o.b, c + o.c, at, row_task, column_task, epilogue.then, o.c,
                  packs_a, b_bytes, buffer);
      }
    }
  });
}

size_t PackedABytes(int64_t m, int64_t k) { return PanelBytesA(m, k); }

void PackA(int64_t m, int64_t k, Transpose trans, int64_t ld, const void* a, void* packed) {
  const TileGeometry tile = GetTileGeometry();
  if (ld == 0) ld = trans == Transpose::kYes ? m : k;
  const auto* source = static_cast<const std::byte*>(a);
  for (int64_t r = 0; r < m; r += tile.rows) {
    const int64_t rows = std::min(tile.rows, m - r);
    float* panel = static_cast<float*>(packed) + r * k;
    if (trans == Transpose::kYes) {
      PackPanelCopy(source + r * 4, ld, k, rows, PanelHeight(rows), panel);
    } else {
      PackPanelTranspose(source + r * ld * 4, ld, k, rows, PanelHeight(rows), panel);
    }
  }
}

size_t PackedBBytes(int64_t k, int64_t n) { return PanelBytesB(k, n); }

void PackB(int64_t k, int64_t n, Transpose trans, int64_t ld, const void* b, void* packed) {
  const TileGeometry tile = GetTileGeometry();
  if (ld == 0) ld = trans == Transpose::kYes ? k : n;
  const auto* source = static_cast<const std::byte*>(b);
  for (int64_t j = 0, columns; j < n; j += columns) {
    columns = NextPanel(tile, n - j);
    float* panel = static_cast<float*>(packed) + j * k;
    if (trans == Transpose::kYes) {
      PackPanelTranspose(source + j * ld * 4, ld, k, columns, PanelColumns(columns), panel);
    } else {
      PackPanelCopy(source + j * 4, ld, k, columns, PanelColumns(columns), panel);
    }
  }
}

}  // namespace parallax::kernels
