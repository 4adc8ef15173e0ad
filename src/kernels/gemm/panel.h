// PanelTask: one block of rows and columns of a matrix product, the unit of work of Gemm and Conv.
//
// Role:       internal to gemm and conv. A caller cuts its product into tasks; a task walks k in
//             blocks, gets B as panels of the tile's width, and runs tiles over its rows.
// Ownership:  borrows every pointer for the call.
// Threads:    pure apart from C and the buffers, which belong to the calling worker.
// Cost:       see the block sizes below; allocates nothing.
// Invariants: every element of C is summed over k in ascending order, in blocks that depend on k
//             alone: its bits do not depend on how C is cut into tasks or tiles.
//
// Panels. B is stored as panels of `columns` columns, each [k][columns]; the last panel is only as
// wide as its columns rounded up to whole vectors, padded with zeros (widths: NextPanel). The panel
// of column j starts at j * k. A's panels are [k][rows]; the last one is as high as the tile that
// computes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "base/function_ref.h"
#include "kernels/epilogue.h"
#include "kernels/gemm/tile.h"

namespace parallax::kernels {

// The tile of the running CPU's target: 8 x 48 with AVX-512, 6 x 16 with AVX2...
struct TileGeometry {
  int64_t rows = 0;
  int64_t lanes = 0;    // of one vector
  int64_t columns = 0;  // a whole number of vectors
};
TileGeometry GetTileGeometry();

// Block sizes, for an L2 of 512 KB and more. A panel of B in one block of k, kBlockK * columns * 4
// bytes, is 24 KB (AVX2) or 72 KB (AVX3): it stays in L1, or streams from L2 at 16 bytes a cycle at
// most, which every L2 sustains. kBlockColumns columns of B in one block of k (216 KB) and kBlockRows
// rows of A (192 KB) share L2. A deep block reads and writes C less often than a shallow one.
inline constexpr int64_t kBlockK = 384;
inline constexpr int64_t kBlockColumns = 144;  // a multiple of every tile's width up to 16 lanes
inline constexpr int64_t kBlockRows = 128;

// Bytes of panels for `n` columns and `k` rows of B, or `m` rows and `k` columns of A.
size_t PanelBytesB(int64_t k, int64_t n);
size_t PanelBytesA(int64_t m, int64_t k);
// Columns rounded up to what their panels occupy.
int64_t PanelColumns(int64_t n);
// Columns of the panel that begins where `left` > 0 columns are left: its share of them, in whole vectors.
// Even shares, because a tile one vector wide takes as long as one of almost two (there are too few sums
// to hide the latency of one), and because tasks of equal panels are equal work.
int64_t NextPanel(const TileGeometry& tile, int64_t left);
// Where to cut `n` columns into at most `tasks` >= 1 parts that are as equal as whole panels allow, each but
// the last a multiple of `step` of them: the first column of every part, and n.
std::vector<int64_t> CutPanels(const TileGeometry& tile, int64_t n, int64_t tasks,
                               int64_t step = 1);
// Where part `task` of `tasks` begins when `rows` are cut into parts of equally many tiles.
inline int64_t CutRows(const TileGeometry& tile, int64_t rows, int64_t tasks, int64_t task) {
  return std::min(CeilDiv(rows, tile.rows) * task / tasks * tile.rows, rows);
}
// kBlockRows rounded up to whole tiles.
int64_t BlockHeight();
// Columns of a panel of at most `vectors` vectors where all panels of `n` columns are as even as they
// can be, so that none is left with a single vector.
int64_t EvenPanelColumns(int64_t n, int64_t vectors);
// Height of the last panel of A when `rows` are left.
int64_t PanelHeight(int64_t rows);

// `length` columns of a panel from `column` on belong at c + c_offset of every row.
struct ColumnRun {
  int64_t column = 0, c_offset = 0, length = 0;
};

// All rows of a block against one panel of B.
struct PanelArgs {
  // b, k, taps and the epilogue; a, c, residual and row_bias at the first row.
  TileArgs tile = {};
  int64_t rows = 0;
  int64_t columns = 0;  // at most the tile's; b is readable up to the next whole vector
  // > 0: A is panels of this depth, tile.a the first one's start, and the tile begins at a_k0.
  int64_t a_panel_k = 0, a_k0 = 0;
  int64_t fetch_floats = 0;  // with tile.fetch: how many follow it that will be read
  // Where the columns lie in C; null: next to each other.
  const ColumnRun* runs = nullptr;
  int64_t run_count = 0;
};
void RunPanel(const PanelArgs& panel);

// Writes B's rows [k0, k0 + kn), columns [n0, n0 + nn) as panels of kn rows at `panels`.
using PackBlock = FunctionRef<void(int64_t k0, int64_t kn, int64_t n0, int64_t nn, float* panels)>;

struct PanelTask {
  int64_t rows = 0, columns = 0, k = 0;

  // A: a(m, k) = a[m * a_row + k * a_k] from the task's first row; or, when a_panels, the panel of
  // the task's first row (a multiple of the tile's height).
  const float* a = nullptr;
  int64_t a_row = 0, a_k = 0;
  bool a_panels = false;
  // Not null: A is stored transposed (a_row == 1) and is packed block by block into this buffer of
  // BlockHeight() * min(k, kBlockK) floats.
  float* a_buffer = nullptr;

  // B, one of: `pack` fills b_buffer (PanelBytesB(min(k, kBlockK), columns)) block by block;
  // b_panels: the whole-k panel of the task's first column; otherwise rows used in place,
  // b[k * b_k + n], with b_buffer for the last partial vector (min(k, kBlockK) * lanes floats).
  const PackBlock* pack = nullptr;
  int64_t pack_n0 = 0;  // what `pack` calls the task's first column
  const float* b = nullptr;
  int64_t b_k = 0;
  bool b_panels = false;
  int64_t columns_after = 0;  // with b_panels: of B, behind the task's
  bool b_continues = false;   // with b_panels: the panel after the task's last one is used next
  float* b_buffer = nullptr;

  // C's first element, leading dimension and the epilogue; a, b, k, rows are the driver's.
  TileArgs out = {};
  // Not null: FinishBlock follows for every block of rows, the residual at C's first element.
  const Epilogue* finish = nullptr;
  const float* finish_residual = nullptr;
};

// REQUIRES: rows, columns >= 1; k == 0 is allowed and reads neither A nor B.
void RunPanelTask(const PanelTask& task);

// dst[k * width + j] = src(k, j) for k < kn, j < columns, 0 for the columns up to width.
// Copy: src(k, j) is at src[k * ld + j]; transpose: at src[j * ld + k]. Sources may be misaligned.
void PackPanelCopy(const void* src, int64_t ld, int64_t kn, int64_t columns, int64_t width,
                   float* dst);
void PackPanelTranspose(const void* src, int64_t ld, int64_t kn, int64_t columns, int64_t width,
                        float* dst);

}  // namespace parallax::kernels
