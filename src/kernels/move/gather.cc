#include "kernels/move/gather.h"

#include "kernels/elementwise/split.h"
#include "kernels/move/index.h"
#include "kernels/move/lines.h"
#include "kernels/move/words.h"

namespace parallax::kernels {

int64_t FirstBadIndex(DType index, const void* indices, int64_t n, int64_t bound) {
  return FirstBadTuple(index, indices, n, 1, &bound);
}

int64_t FirstBadTuple(DType index, const void* indices, int64_t n, int64_t width,
                      const int64_t* bounds) {
  int64_t bad = -1;
  DispatchIndex(index, [&]<class I>() {
    const I* values = static_cast<const I*>(indices);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < width; ++k) {
        const int64_t v = values[i * width + k];
        if (v >= bounds[k] || v < -bounds[k]) {
          bad = i * width + k;
          return;
        }
      }
    }
  });
  return bad;
}

int64_t IndexAt(DType index, const void* indices, int64_t i, int64_t bound) {
  if (index == DType::kI32) return Wrapped(static_cast<const int32_t*>(indices)[i], bound);
  return Wrapped(static_cast<const int64_t*>(indices)[i], bound);
}

void Gather(size_t elem_size, int64_t outer, int64_t axis, int64_t inner, DType index,
            const void* indices, int64_t n, const void* in, void* out, Team& team) {
  if (inner == 0) return;
  DispatchSize(elem_size, [&]<class T>() {
    DispatchIndex(index, [&]<class I>() {
      const I* idx = static_cast<const I*>(indices);
      const T* src = static_cast<const T*>(in);
      T* dst = static_cast<T*>(out);
      ForRanges(outer * n, RowsPerTask(inner), team, [&](int64_t begin, int64_t end) {
        int64_t j = begin % n;
        const T* block = src + begin / n * axis * inner;
        if (inner == 1 && end - begin <= n - j) {
          for (int64_t r = begin; r < end; ++r) dst[r] = block[Wrapped(idx[j + r - begin], axis)];
          return;
        }
        for (int64_t r = begin; r < end; ++r) {
          CopyRun(block + Wrapped(idx[j], axis) * inner, dst + r * inner, inner);
          if (++j == n) {
            j = 0;
            block += axis * inner;
          }
        }
      });
    });
  });
}

void GatherElements(size_t elem_size, const Shape& in_shape, const Shape& index_shape, int axis,
                    DType index, const void* indices, const void* in, void* out, Team& team) {
  if (index_shape.elements() == 0) return;
  const Lines lines(in_shape, index_shape, axis);
  DispatchSize(elem_size, [&]<class T>() {
    DispatchIndex(index, [&]<class I>() {
      ForRanges(lines.count, RowsPerTask(lines.length), team, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          int64_t data_offset;
          int64_t index_offset;
          lines.Locate(line, data_offset, index_offset);
          const T* src = static_cast<const T*>(in) + data_offset;
          const I* idx = static_cast<const I*>(indices) + index_offset;
          T* dst = static_cast<T*>(out) + index_offset;
          for (int64_t k = 0; k < lines.length; ++k) {
            const int64_t at = k * lines.index_step;
            dst[at] = src[Wrapped(idx[at], lines.bound) * lines.data_step];
          }
        }
      });
    });
  });
}

void GatherNd(size_t elem_size, int64_t batch, int64_t n, int64_t width, const int64_t* bounds,
              int64_t inner, DType index, const void* indices, const void* in, void* out,
              Team& team) {
  if (inner == 0) return;
  int64_t block = inner;  // elements of in for one batch entry
  for (int64_t k = 0; k < width; ++k) block *= bounds[k];
  DispatchSize(elem_size, [&]<class T>() {
    DispatchIndex(index, [&]<class I>() {
      const I* idx = static_cast<const I*>(indices);
      const T* src = static_cast<const T*>(in);
      T* dst = static_cast<T*>(out);
      ForRanges(batch * n, RowsPerTask(inner), team, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t at = TupleOffset(idx + r * width, width, bounds);
          CopyRun(src + r / n * block + at * inner, dst + r * inner, inner);
        }
      });
    });
  });
}

}  // namespace parallax::kernels
