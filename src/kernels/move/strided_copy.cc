#include "kernels/move/strided_copy.h"

#include "kernels/elementwise/split.h"
#include "kernels/move/tile.h"
#include "kernels/move/words.h"

namespace parallax::kernels {
namespace {

// The innermost run of n elements.
template <class T>
void CopyRow(const T* src, int64_t src_step, T* dst, int64_t dst_step, int64_t n) {
  if (dst_step == 1) {
    if (src_step == 1) return CopyRun(src, dst, n);
    if (src_step == 0) {
      const T value = *src;
      for (int64_t i = 0; i < n; ++i) dst[i] = value;
      return;
    }
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_step];
    return;
  }
  for (int64_t i = 0; i < n; ++i) dst[i * dst_step] = src[i * src_step];
}

// Counts through loops [0, rank) and keeps the two offsets they give.
struct Odometer {
  const CopyPlan& plan;
  size_t rank;
  std::array<int64_t, kMaxCopyRank> at = {};
  int64_t src = 0;
  int64_t dst = 0;

  void Seek(int64_t index) {
    src = dst = 0;
    for (size_t r = rank; r-- > 0;) {
      at[r] = index % plan.extent[r];
      index /= plan.extent[r];
      src += at[r] * plan.src_stride[r];
      dst += at[r] * plan.dst_stride[r];
    }
  }
  void Next() {
    for (size_t r = rank; r-- > 0;) {
      src += plan.src_stride[r];
      dst += plan.dst_stride[r];
      if (++at[r] < plan.extent[r]) return;
      src -= plan.extent[r] * plan.src_stride[r];
      dst -= plan.extent[r] * plan.dst_stride[r];
      at[r] = 0;
    }
  }
};

template <class T>
void CopyRows(const CopyPlan& plan, const T* src, T* dst, Team& team) {
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  const int64_t row = plan.extent[last];
  const int64_t src_step = plan.src_stride[last];
  const int64_t dst_step = plan.dst_stride[last];
  ForRanges(plan.elements, kTaskElements, team, [&](int64_t begin, int64_t end) {
    Odometer outer{plan, last};
    outer.Seek(begin / row);
    int64_t at = begin % row;
    for (int64_t i = begin; i < end;) {
      const int64_t n = std::min(end - i, row - at);
      CopyRow(src + outer.src + at * src_step, src_step, dst + outer.dst + at * dst_step, dst_step,
              n);
      i += n;
      at = 0;
      outer.Next();
    }
  });
}

// The loop of src step 1 when the last loop (dst step 1) has another; -1 when there is none, or
// where tiles have nothing to give.
int TileLoop(const CopyPlan& plan) {
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  if (plan.dst_stride[last] != 1 || plan.src_stride[last] == 0) return -1;
  for (size_t r = 0; r < last; ++r) {
    if (plan.src_stride[r] == 1) return plan.src_stride[last] == 1 ? -1 : static_cast<int>(r);
  }
  return -1;
}

template <class T>
void CopyTiles(const CopyPlan& plan, size_t loop, const T* src, T* dst, Team& team) {
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  // The other loops, as a plan of their own.
  CopyPlan outer;
  int64_t count = 1;
  for (size_t r = 0; r < last; ++r) {
    if (r == loop) continue;
    const size_t next = static_cast<size_t>(outer.rank++);
    outer.extent[next] = plan.extent[r];
    outer.src_stride[next] = plan.src_stride[r];
    outer.dst_stride[next] = plan.dst_stride[r];
    count *= plan.extent[r];
  }
  const int64_t rows = plan.extent[last];
  const int64_t cols = plan.extent[loop];
  const int64_t src_step = plan.src_stride[last];
  const int64_t dst_step = plan.dst_stride[loop];
  // Square tiles, drawn out along one side where the other is short.
  constexpr int64_t kSide = kTileSide<T>;
  const int64_t row_side = cols < kSide ? kSide * kSide / cols : kSide;
  const int64_t col_side = rows < kSide ? kSide * kSide / rows : kSide;
  const int64_t row_tiles = CeilDiv(rows, row_side);
  const int64_t tiles = row_tiles * CeilDiv(cols, col_side);
  const int64_t grain = std::max<int64_t>(1, kTaskElements / (kSide * kSide));
  ForRanges(count * tiles, grain, team, [&](int64_t begin, int64_t end) {
    Odometer at{outer, static_cast<size_t>(outer.rank)};
    at.Seek(begin / tiles);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t tile = i % tiles;
      if (tile == 0 && i != begin) at.Next();
      const int64_t l = tile % row_tiles * row_side;
      const int64_t j = tile / row_tiles * col_side;
      TransposeTile(src + at.src + l * src_step + j, src_step, dst + at.dst + j * dst_step + l,
                    dst_step, std::min(row_side, rows - l), std::min(col_side, cols - j));
    }
  });
}

}  // namespace

void StridedCopy(const CopyPlan& plan, size_t elem_size, const void* src, void* dst, Team& team) {
  if (plan.elements == 0) return;
  DispatchSize(elem_size, [&]<class T>() {
    const T* from = static_cast<const T*>(src) + plan.src_offset;
    T* to = static_cast<T*>(dst) + plan.dst_offset;
    const int loop = TileLoop(plan);
    if (loop >= 0) {
      CopyTiles(plan, static_cast<size_t>(loop), from, to, team);
    } else {
      CopyRows(plan, from, to, team);
    }
  });
}

}  // namespace parallax::kernels
