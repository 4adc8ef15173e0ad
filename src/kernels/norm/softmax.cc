#include "kernels/norm/softmax.h"

#include <cmath>
#include <limits>

#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/split.h"
#include "kernels/norm/norm_f32.h"

namespace parallax::kernels {
namespace {

// f16 and bf16 lines of at most this many elements are converted whole.
constexpr int64_t kBuffer = 4096;

// One line of any float type; V is the type it computes in.
template <class T, class V>
void SoftmaxLine(SoftmaxKind kind, const T* in, T* out, int64_t n, int64_t step) {
  V max = -std::numeric_limits<V>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    const V v = in[i * step];
    max = max != max || max > v ? max : v;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(std::exp(static_cast<V>(in[i * step]) - max));
  }
  const V log = static_cast<V>(std::log(sum));
  const V inverse = static_cast<V>(1 / sum);
  for (int64_t i = 0; i < n; ++i) {
    const V v = static_cast<V>(in[i * step]) - max;
    out[i * step] =
        static_cast<T>(kind == SoftmaxKind::kLogSoftmax ? v - log : std::exp(v) * inverse);
  }
}

// `cols` neighbouring lines of [axis, stride], f32.
void Columns(SoftmaxKind kind, const float* in, float* out, int64_t axis, int64_t stride,
             int64_t cols) {
  if (stride == 1) return SoftmaxRowF32(kind, in, out, axis);
  SoftmaxColumnsF32(kind, in, out, axis, stride, cols);
}

// The same for halves, through a buffer when a line fits.
template <class Half>
void Columns(SoftmaxKind kind, const Half* in, Half* out, int64_t axis, int64_t stride,
             int64_t cols) {
  if (axis > kBuffer) {
    for (int64_t c = 0; c < cols; ++c) {
      SoftmaxLine<Half, float>(kind, in + c, out + c, axis, stride);
    }
    return;
  }
  float buffer[kBuffer];
  const int64_t width = std::min(cols, kBuffer / axis);
  for (int64_t c = 0; c < cols; c += width) {
    const int64_t n = std::min(width, cols - c);
    if (stride == 1) {
      ToF32Block(kDTypeOf<Half>, in, buffer, axis);
      SoftmaxRowF32(kind, buffer, buffer, axis);
      FromF32Block(kDTypeOf<Half>, buffer, out, axis);
      continue;
    }
    for (int64_t k = 0; k < axis; ++k) {
      ToF32Block(kDTypeOf<Half>, in + k * stride + c, buffer + k * n, n);
    }
    SoftmaxColumnsF32(kind, buffer, buffer, axis, n, n);
    for (int64_t k = 0; k < axis; ++k) {
      FromF32Block(kDTypeOf<Half>, buffer + k * n, out + k * stride + c, n);
    }
  }
}

void Columns(SoftmaxKind kind, const double* in, double* out, int64_t axis, int64_t stride,
             int64_t cols) {
  for (int64_t c = 0; c < cols; ++c) {
    SoftmaxLine<double, double>(kind, in + c, out + c, axis, stride);
  }
}

template <class T>
void Typed(SoftmaxKind kind, int64_t outer, int64_t axis, int64_t inner, const T* in, T* out,
           Team& team) {
  const int64_t blocks = CeilDiv(inner, kNormColumns);
  const int64_t work = axis * std::min(inner, kNormColumns);
  // An exponential costs some ten plain operations: smaller tasks than for those.
  const int64_t grain = std::max<int64_t>(1, RowsPerTask(work) / 4);
  ForRanges(outer * blocks, grain, team, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t col = task % blocks * kNormColumns;
      const int64_t offset = task / blocks * axis * inner + col;
      Columns(kind, in + offset, out + offset, axis, inner, std::min(kNormColumns, inner - col));
    }
  });
}

}  // namespace

void Softmax(SoftmaxKind kind, DType dtype, int64_t outer, int64_t axis, int64_t inner,
             const void* in, void* out, Team& team) {
  if (axis == 0 || inner == 0) return;
  DispatchType(dtype, [&]<class T>() {
    if constexpr (IsFloat(kDTypeOf<T>)) {
      Typed<T>(kind, outer, axis, inner, static_cast<const T*>(in), static_cast<T*>(out), team);
    }
  });
}

}  // namespace parallax::kernels
