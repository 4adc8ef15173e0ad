// Gemm: C[m,n] = act(alpha * op(A)[m,k] * op(B)[k,n] + beta * (bias + residual)) in f32, batched.
//
// Role:       MatMul, Gemm, 1x1 and implicit-GEMM convolution. The plan picks a path from the
//             shape: GEMV for one row or column, operands used in place when that is fastest,
//             otherwise blocks packed into the workspace; a constant operand is packed once.
// Ownership:  borrows every pointer for the call. A packed operand is plain memory of the caller
//             (64-byte aligned) in a layout of the running CPU's best target: never store it on
//             disk.
// Threads:    pure apart from the outputs; one call uses one Team.
// Cost:       m*n*k fused multiply-adds per batch entry; allocates nothing.
// Invariants: the same bits for every team size. Nothing is read through `bias` or `residual` when
//             null or when beta == 0; k == 0 leaves act(beta * (bias + residual)). NaN and
//             infinities propagate. m == 0, n == 0 or an empty batch writes nothing.
// Example:
//   GemmShape shape{.m = 128, .n = 3072, .k = 768, .packed = PackedOperand::kB};
//   PackB(768, 3072, Transpose::kNo, 3072, weights, packed);   // PackedBBytes(768, 3072) bytes,
//   once GemmPlan plan = PlanGemm(shape); Gemm(plan, x, packed, y, {.bias = b, .bias_axis =
//   BiasAxis::kColumn}, workspace, team);
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shape.h"
#include "kernels/epilogue.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class Transpose : uint8_t { kNo, kYes };

// Which operand was packed beforehand by PackA or PackB.
enum class PackedOperand : uint8_t { kNone, kA, kB };

enum class BiasAxis : uint8_t {
  kRow,     // bias[m], one value a row of C
  kColumn,  // bias[n], one value a column of C
  kScalar,  // bias[0] for every element
};

// Batch extents, outermost first, and the distance in floats between neighbours of each operand
// along each of them. A stride of 0 broadcasts. Strides of a packed operand count floats of packed
// memory (PackedABytes / 4, PackedBBytes / 4). C's entries must not overlap.
struct GemmBatch {
  int rank = 0;  // 0: a single product
  int64_t extents[kMaxRank] = {};
  int64_t a_strides[kMaxRank] = {};
  int64_t b_strides[kMaxRank] = {};
  int64_t c_strides[kMaxRank] = {};  // also the residual's
  int64_t bias_strides[kMaxRank] = {};
};

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  Transpose trans_a = Transpose::kNo;  // kYes: A is stored [k,m]
  Transpose trans_b = Transpose::kNo;  // kYes: B is stored [n,k]
  // Elements between stored rows; 0 means tight. Not used for a packed operand.
  int64_t lda = 0, ldb = 0, ldc = 0;
  PackedOperand packed = PackedOperand::kNone;
  GemmBatch batch = {};
};

struct GemmEpilogue {
  float alpha = 1.0f;
  float beta = 1.0f;  // scales bias and residual
  const float* bias = nullptr;
  BiasAxis bias_axis = BiasAxis::kColumn;
  Epilogue then = {};  // residual has C's layout; &C itself accumulates in place
};

enum class GemmPath : uint8_t {
  kEmpty,     // m, n or batch is 0
  kEpilogue,  // k == 0
  kSumRows,   // m == 1 or n == 1, the matrix stored along the outputs: rows scaled and summed
  kDotRows,   // m == 1 or n == 1, the matrix stored along k: one dot product an output
  kDirectB,   // B's rows used in place: small products
  kPackB,     // B packed panel by panel into the worker's slice
  kPackedB,   // B packed beforehand
};

// Everything Gemm needs to know that does not change between calls with one shape.
struct GemmPlan {
  GemmShape shape;  // leading dimensions filled in
  GemmPath path = GemmPath::kEmpty;
  int64_t batch = 1;             // product of the batch extents
  int64_t entries_per_task = 1;  // batch entries; above 1 only where a task is a whole product
  // C's blocks: of a row where the matrix is a vector, else rows of equally many tiles and the columns
  // between two cuts.
  int64_t row_tasks = 0;
  std::vector<int64_t> column_cuts = {};
  bool rows_first = false;  // tasks are numbered along the rows, so that a worker has some rows
  size_t worker_bytes = 0;  // workspace slice of one worker
  int64_t column_tasks() const { return static_cast<int64_t>(column_cuts.size()) - 1; }
  const char* name() const;  // "gemm_packed_b"...
};

// Pure function of the shape (and of the running CPU's vector width); costs some tens of
// operations.
GemmPlan PlanGemm(const GemmShape& shape);

// Bytes of workspace for a team of `team_size`; the workspace must be 64-byte aligned.
size_t GemmWorkspaceBytes(const GemmPlan& plan, int team_size);

// `a` and `b`: plain f32 matrices as the shape says, or the packed copy for the packed operand.
// REQUIRES: plain operands 4-byte aligned; C overlaps neither A, B nor the workspace.
void Gemm(const GemmPlan& plan, const float* a, const float* b, float* c,
          const GemmEpilogue& epilogue, void* workspace, Team& team);

// Packing a constant operand. The source may be misaligned (a view of a file): it is read as bytes.
// `ld` is the distance in elements between stored rows; 0 means tight. The sizes are exact and
// multiples of 64; the destination must be 64-byte aligned.
size_t PackedABytes(int64_t m, int64_t k);
void PackA(int64_t m, int64_t k, Transpose trans, int64_t ld, const void* a, void* packed);
size_t PackedBBytes(int64_t k, int64_t n);
void PackB(int64_t k, int64_t n, Transpose trans, int64_t ld, const void* b, void* packed);

// The SIMD target that runs now ("AVX3", "NEON"...), for reports.
const char* SimdTargetName();

}  // namespace parallax::kernels
