#include "kernels/gemm/panel.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/gemm/gemm.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/panel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/copy-inl.h"
#include "kernels/gemm/row_tile-inl.h"
#include "kernels/gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLineFloats = 16;  // of a cache line
// What a core reads from memory while one line is on its way: 100 ns of 40 GB/s.
constexpr int64_t kStreamAhead = 1024;

TileGeometry Geometry() {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  return {.rows = kTileRows, .lanes = lanes, .columns = kTileVectors * lanes};
}

const char* TargetNameImpl() { return hwy::TargetName(HWY_TARGET); }

int64_t Height(int64_t rows) { return TileHeight(rows); }

template <int kVectors>
HWY_INLINE void CallHeight(const TileArgs& t) {
  switch (TileHeight(t.rows)) {
    case kTileRows:
      return Tile<kTileRows, kVectors>(t);
    case kTileRows - 1:
      return Tile<kTileRows - 1, kVectors>(t);
    case kTileMostRows:
      return Tile<kTileMostRows, kVectors>(t);
    case kTileHalfRows:
      return Tile<kTileHalfRows, kVectors>(t);
    default:
      return Tile<1, kVectors>(t);
  }
}

HWY_INLINE void CallTile(const TileArgs& t, int64_t vectors) {
  if (vectors == 1) {
    CallHeight<1>(t);
  } else if (vectors == 2 || kTileVectors == 2) {
    CallHeight<2>(t);
  } else {
    CallHeight<kTileVectors>(t);
  }
}

// A tile whose columns are not consecutive whole vectors in C: C, the residual and the bias go
// through scratch. Columns outside the runs are computed from what is there, and dropped.
HWY_NOINLINE void ScratchTile(TileArgs t, const ColumnRun* runs, int64_t run_count, int64_t vectors,
                              int64_t lanes) {
  constexpr int64_t kWidth = kTileVectors * hn::MaxLanes(hn::ScalableTag<float>());
  HWY_ALIGN float c[kTileRows * kWidth];
  HWY_ALIGN float residual[kTileRows * kWidth];
  HWY_ALIGN float bias[kWidth];
  const int64_t width = vectors * lanes;
  float* const target = t.c;
  const int64_t ldc = t.ldc;
  const float* source = t.accumulate ? target : t.residual;
  if (source != nullptr) {
    float* to = t.accumulate ? c : residual;
    for (int64_t r = 0; r < t.rows; ++r) {
      for (const ColumnRun* run = runs; run < runs + run_count; ++run) {
        CopyFloats(source + r * ldc + run->c_offset, run->length, to + r * width + run->column);
      }
    }
    if (!t.accumulate) t.residual = residual;
  }
  if (t.column_bias != nullptr) {
    for (const ColumnRun* run = runs; run < runs + run_count; ++run) {
      CopyFloats(t.column_bias + run->c_offset, run->length, bias + run->column);
    }
    t.column_bias = bias;
  }
  t.c = c;
  t.ldc = width;
  CallTile(t, vectors);
  for (int64_t r = 0; r < t.rows; ++r) {
    for (const ColumnRun* run = runs; run < runs + run_count; ++run) {
      CopyFloats(c + r * width + run->column, run->length, target + r * ldc + run->c_offset);
    }
  }
}

// A last tile of a row or two takes much longer than its part, since it has too few sums to hide the
// latency of one: how many tiles are to be a row lower than they could, so that none is left.
HWY_INLINE int64_t LowerTiles(int64_t rows) {
  const int64_t whole = rows / kTileRows, left = rows % kTileRows;
  const bool few = left > 0 && left < kTileHalfRows;
  return few && whole >= kTileRows - 1 - left ? kTileRows - left : 0;
}

void PanelImpl(const PanelArgs& p) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t vectors = CeilDiv(p.columns, lanes);
  const ColumnRun all = {.column = 0, .c_offset = 0, .length = p.columns};
  const bool whole = vectors * lanes == p.columns;
  const bool direct = p.runs == nullptr && (whole || (kTilesMask && !TileAdds(p.tile)));
  const ColumnRun* runs = p.runs != nullptr ? p.runs : &all;
  const int64_t run_count = p.runs != nullptr ? p.run_count : 1;
  TileArgs t = p.tile;
  if (direct && !whole) t.last_columns = p.columns - (vectors - 1) * lanes;
  int64_t lower = p.a_panel_k > 0 ? 0 : LowerTiles(p.rows);
  for (int64_t m = 0; m < p.rows; m += t.rows) {
    t.rows = HWY_MIN(static_cast<int64_t>(kTileRows), p.rows - m);
    if (lower > 0) {
      --lower;
      t.rows = kTileRows - 1;
    }
    if (p.a_panel_k > 0) {
      t.a_row = 1;
      t.a_k = TileHeight(t.rows);
      t.a = p.tile.a + m * p.a_panel_k + p.a_k0 * t.a_k;
    } else if (t.a_rows != nullptr) {
      t.a_rows = p.tile.a_rows + m;
    } else {
      t.a = p.tile.a + m * t.a_row;
    }
    t.c = p.tile.c + m * t.ldc;
    if (p.tile.fetch != nullptr) {
      const int64_t fetched = m / kTileRows * (t.k / kFetchSteps) * t.fetch_step;
      t.fetch = fetched < p.fetch_floats ? p.tile.fetch + fetched : nullptr;
    }
    if (t.residual != nullptr) t.residual = p.tile.residual + m * t.ldc;
    if (t.row_bias != nullptr) t.row_bias = p.tile.row_bias + m * t.row_bias_step;
    if (direct) {
      CallTile(t, vectors);
    } else {
      ScratchTile(t, runs, run_count, vectors, lanes);
    }
  }
}

// The block of A that starts at row m0, depth k0.
HWY_INLINE void SetA(const PanelTask& task, int64_t m0, int64_t k0, int64_t k, PanelArgs& p) {
  p.a_k0 = k0;
  if (task.a_buffer != nullptr) {
    for (int64_t m = 0; m < p.rows; m += kTileRows) {
      const int64_t rows = HWY_MIN(static_cast<int64_t>(kTileRows), p.rows - m);
      PackPanelCopy(task.a + m0 + m + k0 * task.a_k, task.a_k, k, rows, TileHeight(rows),
                    task.a_buffer + m * k);
    }
    p.tile.a = task.a_buffer;
    p.a_panel_k = k;
    p.a_k0 = 0;
  } else if (task.a_panels) {
    p.tile.a = task.a + m0 * task.k;
    p.a_panel_k = task.k;
  } else {
    p.tile.a_row = task.a_row;
    p.tile.a_k = task.a_k;
    p.tile.a = task.a + m0 * task.a_row + k0 * task.a_k;
  }
}

// The panel of B at column n of the task, at most `p.columns` wide.
HWY_INLINE void SetB(const PanelTask& task, const TileGeometry& g, int64_t n, int64_t k0, int64_t k,
                     PanelArgs& p) {
  const int64_t whole_columns = task.columns / g.lanes * g.lanes;
  if (task.pack != nullptr || task.b_panels) {
    p.tile.b_k = RoundUp(p.columns, g.lanes);
    p.tile.b = task.b_panels ? task.b + n * task.k + k0 * p.tile.b_k : task.b_buffer + n * k;
  } else if (n < whole_columns) {  // whole vectors where they lie
    p.columns = HWY_MIN(p.columns, whole_columns - n);
    p.tile.b = task.b + k0 * task.b_k + n;
    p.tile.b_k = task.b_k;
  } else {  // the packed last one
    p.tile.b = task.b_buffer;
    p.tile.b_k = g.lanes;
  }
}

// Columns of B from column `n` of the task on.
HWY_INLINE int64_t Left(const PanelTask& task, int64_t n) {
  return task.columns - n + task.columns_after;
}

// Packed B comes from far away: while the rows of `p` use one panel, their tiles fetch the one that
// is used next, a line every kFetchSteps steps until all of it is asked for. Nothing where that one
// was used before: it is near.
HWY_INLINE void FetchNext(const PanelTask& task, const TileGeometry& g, int64_t n, int64_t k0,
                          int64_t m0, PanelArgs& p) {
  int64_t column = n + p.columns, depth = k0;
  if (!task.b_panels) return;
  if (column >= task.columns) {
    if (m0 + p.rows < task.rows) return;
    depth += p.tile.k;
    column = depth < task.k ? 0 : column;
    depth = depth < task.k ? depth : 0;
    if (column > 0 && !task.b_continues) return;
  }
  const int64_t width = RoundUp(NextPanel(g, Left(task, column)), g.lanes);
  const int64_t shares = CeilDiv(p.rows, static_cast<int64_t>(kTileRows));
  p.tile.fetch = task.b + column * task.k + depth * width;
  p.tile.fetch_step = HWY_MAX(CeilDiv(kFetchSteps * width, shares), kLineFloats);
  p.fetch_floats = p.tile.k * width;
}

// Rows of A that follow each other in memory come from far away as well: while a tile uses some, it
// fetches those of the next tile.
HWY_INLINE void FetchNextRows(const PanelTask& task, int64_t m0, int64_t k, PanelArgs& p) {
  if (p.a_panel_k > 0 || task.a_k != 1 || task.a_row != k) return;
  p.tile.fetch = task.a + (m0 + kTileRows) * k;
  p.tile.fetch_step = kLineFloats;
  p.fetch_floats = HWY_MAX(task.rows - m0 - kTileRows, static_cast<int64_t>(0)) * k;
}

// Whether the next `count` panels are as wide as a tile.
bool FullPanels(const TileGeometry& g, int64_t left, int64_t count) {
  for (; count > 0 && left >= g.columns && NextPanel(g, left) == g.columns; --count) {
    left -= g.columns;
  }
  return count == 0;
}

void PanelTaskImpl(const PanelTask& task) {
  const TileGeometry g = Geometry();
  const int64_t whole_columns = task.columns / g.lanes * g.lanes;
  // Blocks of equal size, in rows as in k, so that the last one is not a sliver.
  const int64_t row_blocks = CeilDiv(task.rows, kBlockRows);
  const int64_t row_step = RoundUp(CeilDiv(task.rows, row_blocks), static_cast<int64_t>(kTileRows));
  const int64_t blocks = HWY_MAX(CeilDiv(task.k, kBlockK), static_cast<int64_t>(1));
  const int64_t block = CeilDiv(task.k, blocks);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t k0 = i * block;
    const int64_t k = HWY_MIN(block, task.k - k0);
    if (task.pack != nullptr) {
      (*task.pack)(k0, k, task.pack_n0, task.columns, task.b_buffer);
    } else if (!task.b_panels && whole_columns < task.columns && k > 0) {
      PackPanelCopy(task.b + k0 * task.b_k + whole_columns, task.b_k, k,
                    task.columns - whole_columns, g.lanes, task.b_buffer);
    }
    for (int64_t m0 = 0; m0 < task.rows; m0 += row_step) {
      PanelArgs p;
      p.tile = task.out;
      p.tile.k = k;
      p.tile.accumulate = i > 0;
      if (task.b_panels && task.rows <= kTileFewRows) p.tile.ahead = kStreamAhead;
      p.tile.clamp = task.out.clamp && i + 1 == blocks;
      p.rows = HWY_MIN(row_step, task.rows - m0);
      SetA(task, m0, k0, k, p);
      if (task.out.row_bias != nullptr) p.tile.row_bias += m0 * p.tile.row_bias_step;
      for (int64_t n = 0; n < task.columns; n += p.columns) {
        p.columns = NextPanel(g, Left(task, n));
        SetB(task, g, n, k0, k, p);
        p.tile.fetch = nullptr;
        FetchNext(task, g, n, k0, m0, p);
        if (n == 0 && p.tile.fetch == nullptr) FetchNextRows(task, m0, k, p);
        const int64_t at = m0 * p.tile.ldc + n;
        p.tile.c = task.out.c + at;
        if (task.out.residual != nullptr) p.tile.residual = task.out.residual + at;
        if (task.out.column_bias != nullptr) p.tile.column_bias = task.out.column_bias + n;
        if (task.rows == 1 && task.b_panels && n + kRowPanels * g.columns <= task.columns &&
            FullPanels(g, Left(task, n), kRowPanels)) {
          if (p.a_panel_k > 0) {  // a panel of one row is that row
            p.tile.a += p.a_k0;
            p.tile.a_k = 1;
            p.a_panel_k = p.a_k0 = 0;
          }
          RowTile(p.tile, g.columns * task.k);
          p.columns = kRowPanels * g.columns;
          continue;
        }
        PanelImpl(p);
      }
      if (task.finish != nullptr && i + 1 == blocks) {
        const int64_t at = m0 * task.out.ldc;
        FinishBlock(*task.finish, task.out.c + at,
                    task.finish_residual != nullptr ? task.finish_residual + at : nullptr, p.rows,
                    task.columns, task.out.ldc);
      }
    }
  }
}

// Sources may be misaligned views of a file, which a float pointer must not point to.
template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const uint8_t* p) {
#if HWY_TARGET == HWY_SCALAR
  float f;
  memcpy(&f, p, sizeof(f));
  return hn::Set(d, f);
#else
  const hn::Repartition<uint8_t, D> d8;
  return hn::BitCast(d, hn::LoadU(d8, p));
#endif
}

HWY_INLINE float LoadOne(const uint8_t* p) {
  float f;
  memcpy(&f, p, sizeof(f));
  return f;
}

void CopyImpl(const uint8_t* src, int64_t ld, int64_t kn, int64_t columns, int64_t width,
              float* dst) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = columns / lanes * lanes;
  for (int64_t k = 0; k < kn; ++k, src += ld * 4, dst += width) {
    for (int64_t j = 0; j < whole; j += lanes) hn::StoreU(LoadBytes(d, src + j * 4), d, dst + j);
    if (whole == width) continue;
    int64_t j = whole;
    if (whole + lanes <= width) {
      for (; j < width; j += lanes) hn::StoreU(hn::Zero(d), d, dst + j);
    } else {  // a panel of A: narrower than a vector
      for (j = columns; j < width; ++j) dst[j] = 0.0f;
    }
    for (j = whole; j < columns; ++j) dst[j] = LoadOne(src + j * 4);
  }
}

void TransposeImpl(const uint8_t* src, int64_t ld, int64_t kn, int64_t columns, int64_t width,
                   float* dst) {
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  // Blocks of 4 x 4: rows j..j+3 of the source become columns of dst.
  const hn::CappedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> dw;
  for (; j + 4 <= columns; j += 4) {
    const uint8_t* HWY_RESTRICT s0 = src + j * ld * 4;
    const uint8_t* HWY_RESTRICT s1 = s0 + ld * 4;
    const uint8_t* HWY_RESTRICT s2 = s1 + ld * 4;
    const uint8_t* HWY_RESTRICT s3 = s2 + ld * 4;
    float* HWY_RESTRICT to = dst + j;
    int64_t k = 0;
    for (; k + 4 <= kn; k += 4, to += 4 * width) {
      const auto r0 = LoadBytes(d, s0 + k * 4), r1 = LoadBytes(d, s1 + k * 4);
      const auto r2 = LoadBytes(d, s2 + k * 4), r3 = LoadBytes(d, s3 + k * 4);
      const auto lo01 = hn::BitCast(dw, hn::InterleaveLower(d, r0, r1));
      const auto hi01 = hn::BitCast(dw, hn::InterleaveUpper(d, r0, r1));
      const auto lo23 = hn::BitCast(dw, hn::InterleaveLower(d, r2, r3));
      const auto hi23 = hn::BitCast(dw, hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, lo01, lo23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, lo01, lo23)), d, to + width);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, hi01, hi23)), d, to + 2 * width);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, hi01, hi23)), d, to + 3 * width);
    }
    for (; k < kn; ++k, to += width) {
      to[0] = LoadOne(s0 + k * 4);
      to[1] = LoadOne(s1 + k * 4);
      to[2] = LoadOne(s2 + k * 4);
      to[3] = LoadOne(s3 + k * 4);
    }
  }
#endif
  for (; j < columns; ++j) {
    const uint8_t* s = src + j * ld * 4;
    for (int64_t k = 0; k < kn; ++k) dst[k * width + j] = LoadOne(s + k * 4);
  }
  for (; j < width; ++j) {
    for (int64_t k = 0; k < kn; ++k) dst[k * width + j] = 0.0f;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(Geometry);
HWY_EXPORT(Height);
HWY_EXPORT(TargetNameImpl);
HWY_EXPORT(PanelImpl);
HWY_EXPORT(PanelTaskImpl);
HWY_EXPORT(CopyImpl);
HWY_EXPORT(TransposeImpl);
}  // namespace

TileGeometry GetTileGeometry() { return HWY_DYNAMIC_DISPATCH(Geometry)(); }

int64_t PanelColumns(int64_t n) { return RoundUp(n, GetTileGeometry().lanes); }

int64_t BlockHeight() { return RoundUp(kBlockRows, GetTileGeometry().rows); }

int64_t NextPanel(const TileGeometry& tile, int64_t left) {
  const int64_t vectors = CeilDiv(left, tile.lanes), panels = CeilDiv(left, tile.columns);
  return std::min(left, (2 * vectors + panels) / (2 * panels) * tile.lanes);  // rounded
}

std::vector<int64_t> CutPanels(const TileGeometry& tile, int64_t n, int64_t tasks, int64_t step) {
  const int64_t steps = CeilDiv(CeilDiv(n, tile.columns), step);
  tasks = std::clamp<int64_t>(tasks, 1, std::max<int64_t>(steps, 1));
  std::vector<int64_t> cuts = {0};
  int64_t column = 0, panel = 0;
  for (int64_t task = 1; task < tasks; ++task) {
    for (; panel < steps * task / tasks * step; ++panel) column += NextPanel(tile, n - column);
    cuts.push_back(column);
  }
  cuts.push_back(n);
  return cuts;
}

int64_t EvenPanelColumns(int64_t n, int64_t vectors) {
  const int64_t lanes = GetTileGeometry().lanes, all = CeilDiv(n, lanes);
  return CeilDiv(all, CeilDiv(all, vectors)) * lanes;
}

int64_t PanelHeight(int64_t rows) { return HWY_DYNAMIC_DISPATCH(Height)(rows); }

size_t PanelBytesB(int64_t k, int64_t n) {
  return static_cast<size_t>(RoundUp(k * PanelColumns(n) * 4, 64));
}

size_t PanelBytesA(int64_t m, int64_t k) {
  return static_cast<size_t>(RoundUp(k * RoundUp(m, GetTileGeometry().rows) * 4, 64));
}

const char* SimdTargetName() { return HWY_DYNAMIC_DISPATCH(TargetNameImpl)(); }

void RunPanel(const PanelArgs& panel) { HWY_DYNAMIC_DISPATCH(PanelImpl)(panel); }

void RunPanelTask(const PanelTask& task) { HWY_DYNAMIC_DISPATCH(PanelTaskImpl)(task); }

void PackPanelCopy(const void* src, int64_t ld, int64_t kn, int64_t columns, int64_t width,
                   float* dst) {
  HWY_DYNAMIC_DISPATCH(CopyImpl)
  (static_cast<const uint8_t*>(src), ld, kn, columns, width, dst);
}

void PackPanelTranspose(const void* src, int64_t ld, int64_t kn, int64_t columns, int64_t width,
                        float* dst) {
  HWY_DYNAMIC_DISPATCH(TransposeImpl)
  (static_cast<const uint8_t*>(src), ld, kn, columns, width, dst);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
