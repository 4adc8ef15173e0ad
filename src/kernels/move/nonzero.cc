#include "kernels/move/nonzero.h"

#include <array>
#include <atomic>

#include "kernels/elementwise/split.h"

namespace parallax::kernels {

int64_t CountNonZero(DType dtype, const void* in, int64_t n, Team& team) {
  std::atomic<int64_t> total{0};
  DispatchType(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(in);
    ForRanges(n, kTaskElements, team, [&](int64_t begin, int64_t end) {
      int64_t count = 0;
      for (int64_t i = begin; i < end; ++i) count += x[i] != 0 ? 1 : 0;
      total.fetch_add(count, std::memory_order_relaxed);
    });
  });
  return total.load();
}

void NonZero(DType dtype, const Shape& shape, const void* in, int64_t count, int64_t* out) {
  const int rank = shape.rank();
  if (rank == 0) return;
  const int64_t n = shape.elements();
  const int64_t row = shape[rank - 1];
  DispatchType(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(in);
    std::array<int64_t, kMaxRank> at = {};  // of the row
    int64_t k = 0;
    for (int64_t start = 0; start < n; start += row) {
      for (int64_t i = 0; i < row; ++i) {
        if (!(x[start + i] != 0)) continue;
        for (int r = 0; r < rank - 1; ++r) out[r * count + k] = at[static_cast<size_t>(r)];
        out[(rank - 1) * count + k] = i;
        ++k;
      }
      for (int r = rank - 1; r-- > 0;) {
        if (++at[static_cast<size_t>(r)] < shape[r]) break;
        at[static_cast<size_t>(r)] = 0;
      }
    }
  });
}

}  // namespace parallax::kernels
