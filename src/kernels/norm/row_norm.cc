#include "kernels/norm/row_norm.h"

#include "kernels/norm/rows.h"

namespace parallax::kernels {
namespace {

// Writes statistics in the type they are asked for: f64 for f64, else f32.
template <class T>
void PutStat(void* stats, int64_t row, double value) {
  if (stats != nullptr) static_cast<ComputeOf<T>*>(stats)[row] = static_cast<ComputeOf<T>>(value);
}

// Lines of [axis, inner] across memory, divided by their norm; cols <= kNormColumns.
template <class T>
void NormalizeColumns(int p, const T* in, T* out, int64_t axis, int64_t inner, int64_t cols) {
  using V = ComputeOf<T>;
  double norm[kNormColumns] = {};
  V factor[kNormColumns];
  const SumTerm term = p == 1 ? SumTerm::kAbs : SumTerm::kSquare;
  if constexpr (std::is_same_v<T, float>) {
    SumRowsF32(term, in, inner, axis, cols, norm);
  } else {
    for (int64_t k = 0; k < axis; ++k) {
      for (int64_t c = 0; c < cols; ++c) {
        const double v = static_cast<double>(in[k * inner + c]);
        norm[c] += term == SumTerm::kSquare ? v * v : std::abs(v);
      }
    }
  }
  for (int64_t c = 0; c < cols; ++c) {
    const double n = p == 1 ? norm[c] : std::sqrt(norm[c]);
    factor[c] = static_cast<V>(n == 0 ? 0 : 1 / n);
  }
  for (int64_t k = 0; k < axis; ++k) {
    for (int64_t c = 0; c < cols; ++c) {
      out[k * inner + c] = static_cast<T>(static_cast<V>(in[k * inner + c]) * factor[c]);
    }
  }
}

}  // namespace

void LayerNorm(DType dtype, int64_t rows, int64_t cols, const void* in, const void* scale,
               const void* bias, float epsilon, void* out, void* mean, void* inv_std, Team& team) {
  DispatchFloat(dtype, [&]<class T>() {
    ForRanges(rows, RowsPerTask(cols), team, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = static_cast<const T*>(in) + r * cols;
        const RowStats<T> stats(x, cols);
        const double inverse = 1 / std::sqrt(stats.variance + static_cast<double>(epsilon));
        PutStat<T>(mean, r, static_cast<double>(stats.mean));
        PutStat<T>(inv_std, r, inverse);
        NormalizeRow(x, static_cast<T*>(out) + r * cols, cols, stats.mean,
                     static_cast<ComputeOf<T>>(inverse), static_cast<const T*>(scale),
                     static_cast<const T*>(bias));
      }
    });
  });
}

void RmsNorm(DType dtype, int64_t rows, int64_t cols, const void* in, const void* scale,
             float epsilon, void* out, void* inv_rms, Team& team) {
  DispatchFloat(dtype, [&]<class T>() {
    ForRanges(rows, RowsPerTask(cols), team, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = static_cast<const T*>(in) + r * cols;
        const double square = RowSum(SumTerm::kSquare, x, cols) / static_cast<double>(cols);
        const double inverse = 1 / std::sqrt(square + static_cast<double>(epsilon));
        PutStat<T>(inv_rms, r, inverse);
        NormalizeRow<T>(x, static_cast<T*>(out) + r * cols, cols, 0,
                        static_cast<ComputeOf<T>>(inverse), static_cast<const T*>(scale), nullptr);
      }
    });
  });
}

void LpNormalize(DType dtype, int64_t outer, int64_t axis, int64_t inner, int p, const void* in,
                 void* out, Team& team) {
  if (axis == 0 || inner == 0) return;
  const SumTerm term = p == 1 ? SumTerm::kAbs : SumTerm::kSquare;
  const int64_t blocks = CeilDiv(inner, kNormColumns);
  const int64_t work = axis * std::min(inner, kNormColumns);
  DispatchFloat(dtype, [&]<class T>() {
    ForRanges(outer * blocks, RowsPerTask(work), team, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t col = task % blocks * kNormColumns;
        const int64_t offset = task / blocks * axis * inner + col;
        const T* x = static_cast<const T*>(in) + offset;
        T* y = static_cast<T*>(out) + offset;
        if (inner > 1) {
          NormalizeColumns(p, x, y, axis, inner, std::min(kNormColumns, inner - col));
          continue;
        }
        const double sum = RowSum(term, x, axis);
        const double norm = p == 1 ? sum : std::sqrt(sum);
        AffineRow<T>(x, y, axis, 0, static_cast<ComputeOf<T>>(norm == 0 ? 0 : 1 / norm), 0);
      }
    });
  });
}

}  // namespace parallax::kernels
