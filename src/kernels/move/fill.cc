#include "kernels/move/fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/split.h"
#include "kernels/elementwise/unary_scalar.h"
#include "kernels/move/words.h"

namespace parallax::kernels {
namespace {

template <class T>
T ReadWord(const void* p) {
  T value = 0;
  if (p != nullptr) std::memcpy(&value, p, sizeof value);
  return value;
}

// ceil(distance / step) for distance > 0, step > 0, all in uint64.
int64_t Steps(uint64_t distance, uint64_t step) {
  const uint64_t n = distance / step + (distance % step != 0 ? 1 : 0);
  return n > static_cast<uint64_t>(INT64_MAX) ? -1 : static_cast<int64_t>(n);
}

}  // namespace

void Fill(size_t elem_size, const void* value, void* out, int64_t n, Team& team) {
  DispatchSize(elem_size, [&]<class T>() {
    const T word = ReadWord<T>(value);
    T* to = static_cast<T*>(out);
    ForRanges(n, kTaskElements, team,
              [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, word); });
  });
}

int64_t RangeCount(DType dtype, const void* start, const void* limit, const void* delta) {
  int64_t count = -1;
  DispatchType(dtype, [&]<class T>() {
    const T s = *static_cast<const T*>(start);
    const T l = *static_cast<const T*>(limit);
    const T d = *static_cast<const T*>(delta);
    if constexpr (std::is_same_v<T, bool>) {
      return;
    } else if constexpr (std::is_integral_v<T>) {
      // Differences of 64-bit values need not fit 64 signed bits: they do unsigned.
      using U = uint64_t;
      if (d > 0) {
        count = l <= s ? 0 : Steps(static_cast<U>(l) - static_cast<U>(s), static_cast<U>(d));
      } else if (d < 0) {
        count = l >= s ? 0 : Steps(static_cast<U>(s) - static_cast<U>(l), U{0} - static_cast<U>(d));
      }
    } else {
      const double n =
          std::ceil((static_cast<double>(l) - static_cast<double>(s)) / static_cast<double>(d));
      if (d != 0 && n < 0x1p63) count = n > 0 ? static_cast<int64_t>(n) : 0;
    }
  });
  return count;
}

void Range(DType dtype, const void* start, const void* delta, int64_t n, void* out) {
  DispatchType(dtype, [&]<class T>() {
    const T s = *static_cast<const T*>(start);
    const T d = *static_cast<const T*>(delta);
    T* to = static_cast<T*>(out);
    if constexpr (std::is_same_v<T, bool>) {
      return;
    } else if constexpr (std::is_integral_v<T>) {
      using W = Wrapping<T>;
      for (int64_t i = 0; i < n; ++i) {
        to[i] = static_cast<T>(static_cast<W>(s) + static_cast<W>(i) * static_cast<W>(d));
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        to[i] = T(static_cast<double>(s) + static_cast<double>(i) * static_cast<double>(d));
      }
    }
  });
}

void EyeLike(DType dtype, int64_t rows, int64_t cols, int64_t diagonal, void* out) {
  diagonal = std::clamp(diagonal, -rows, cols);
  DispatchType(dtype, [&]<class T>() {
    T* to = static_cast<T*>(out);
    std::fill(to, to + rows * cols, T());
    for (int64_t r = std::max<int64_t>(0, -diagonal); r < rows && r + diagonal < cols; ++r) {
      to[r * cols + r + diagonal] = T(1);
    }
  });
}

void OneHot(size_t elem_size, int64_t outer, int64_t depth, int64_t inner, DType index,
            const void* indices, const void* off, const void* on, void* out, Team& team) {
  const int64_t row = depth * inner;
  if (row == 0) return;
  DispatchSize(elem_size, [&]<class T>() {
    const T cold = ReadWord<T>(off);
    const T hot = ReadWord<T>(on);
    const size_t index_size = SizeOf(index);
    ForRanges(outer, RowsPerTask(row), team, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        T* to = static_cast<T*>(out) + o * row;
        std::fill(to, to + row, cold);
        for (int64_t i = 0; i < inner; ++i) {
          int64_t at;
          CastSerial(index, DType::kI64,
                     static_cast<const std::byte*>(indices) +
                         static_cast<size_t>(o * inner + i) * index_size,
                     &at, 1);
          if (at < 0) at += depth;
          if (at >= 0 && at < depth) to[at * inner + i] = hot;
        }
      }
    });
  });
}

void Trilu(Triangle triangle, size_t elem_size, int64_t batch, int64_t rows, int64_t cols,
           int64_t diagonal, const void* in, void* out, Team& team) {
  if (cols == 0) return;
  DispatchSize(elem_size, [&]<class T>() {
    ForRanges(batch * rows, RowsPerTask(cols), team, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = static_cast<const T*>(in) + r * cols;
        T* to = static_cast<T*>(out) + r * cols;
        // First column of the upper triangle, or one past the lower: row + diagonal (+ 1), clamped
        // before adding so that no diagonal overflows.
        const int64_t row = r % rows;
        const bool upper = triangle == Triangle::kUpper;
        const int64_t shift = std::clamp<int64_t>(diagonal, -rows - 1, cols + 1);
        const int64_t edge = std::clamp<int64_t>(row + shift + (upper ? 0 : 1), 0, cols);
        const int64_t lo = upper ? edge : 0;
        const int64_t hi = upper ? cols : edge;
        std::fill(to, to + lo, T(0));
        if (from != to) CopyRun(from + lo, to + lo, hi - lo);
        std::fill(to + hi, to + cols, T(0));
      }
    });
  });
}

void ReverseSequence(size_t elem_size, BatchAxis batch_axis, int64_t batch, int64_t time,
                     int64_t inner, const int64_t* lengths, const void* in, void* out, Team& team) {
  if (inner == 0) return;
  const bool batch_first = batch_axis == BatchAxis::kFirst;
  const int64_t batch_stride = batch_first ? time * inner : inner;
  const int64_t time_stride = batch_first ? inner : batch * inner;
  DispatchSize(elem_size, [&]<class T>() {
    ForRanges(batch * time, RowsPerTask(inner), team, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t b = r / time;
        const int64_t t = r % time;
        const int64_t source = t < lengths[b] ? lengths[b] - 1 - t : t;
        CopyRun(static_cast<const T*>(in) + b * batch_stride + source * time_stride,
                static_cast<T*>(out) + b * batch_stride + t * time_stride, inner);
      }
    });
  });
}

}  // namespace parallax::kernels
