#include "kernels/norm/channel_norm.h"

#include "kernels/norm/rows.h"

namespace parallax::kernels {
namespace {

// Element i of a float array of any type.
double ReadFloat(DType dtype, const void* values, int64_t i) {
  double v = 0;
  DispatchFloat(dtype,
                [&]<class T>() { v = static_cast<double>(static_cast<const T*>(values)[i]); });
  return v;
}

// x^-beta; the exponent of every published network without a call to pow.
template <class V>
V InversePower(V x, V beta) {
  if (beta == V(0.75)) {
    const V root = std::sqrt(x);
    return 1 / (root * std::sqrt(root));
  }
  return std::pow(x, -beta);
}

// One block of positions of one image: all channels, by a window of squares.
template <class T>
void LrnBlock(const T* in, T* out, int64_t channels, int64_t spatial, int64_t n, int64_t before,
              int64_t after, ComputeOf<T> scale, ComputeOf<T> beta, ComputeOf<T> bias) {
  using V = ComputeOf<T>;
  V sum[kNormColumns];
  for (int64_t c = 0; c < channels; ++c) {
    std::fill(sum, sum + n, V(0));
    const int64_t last = std::min(channels - 1, c + after);
    for (int64_t j = std::max<int64_t>(0, c - before); j <= last; ++j) {
      for (int64_t i = 0; i < n; ++i) {
        const V v = static_cast<V>(in[j * spatial + i]);
        sum[i] += v * v;
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const V v = static_cast<V>(in[c * spatial + i]);
      out[c * spatial + i] = static_cast<T>(v * InversePower(bias + scale * sum[i], beta));
    }
  }
}

}  // namespace

void GroupNorm(DType dtype, int64_t batch, int64_t channels, int64_t spatial, int64_t groups,
               const void* in, const void* scale, const void* bias, float epsilon, void* out,
               Team& team) {
  if (channels == 0) return;
  const int64_t per_group = channels / groups;
  const int64_t row = per_group * spatial;
  if (row == 0) return;
  DispatchFloat(dtype, [&]<class T>() {
    using V = ComputeOf<T>;
    ForRanges(batch * groups, RowsPerTask(row), team, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = static_cast<const T*>(in) + r * row;
        T* y = static_cast<T*>(out) + r * row;
        const RowStats<T> stats(x, row);
        const double inverse = 1 / std::sqrt(stats.variance + static_cast<double>(epsilon));
        for (int64_t k = 0; k < per_group; ++k) {
          const int64_t c = r % groups * per_group + k;
          const double gain = static_cast<double>(static_cast<const T*>(scale)[c]) * inverse;
          AffineRow<T>(x + k * spatial, y + k * spatial, spatial, stats.mean, static_cast<V>(gain),
                       static_cast<V>(static_cast<const T*>(bias)[c]));
        }
      }
    });
  });
}

void BatchNorm(DType dtype, DType param, DType stat, int64_t batch, int64_t channels,
               int64_t spatial, const void* in, const void* scale, const void* bias,
               const void* mean, const void* var, float epsilon, void* out, Team& team) {
  if (spatial == 0) return;
  DispatchFloat(dtype, [&]<class T>() {
    using V = ComputeOf<T>;
    const int64_t grain = std::max<int64_t>(1, RowsPerTask(spatial * batch));
    ForRanges(channels, grain, team, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const double gain = ReadFloat(param, scale, c) /
                            std::sqrt(ReadFloat(stat, var, c) + static_cast<double>(epsilon));
        const double offset = ReadFloat(param, bias, c) - ReadFloat(stat, mean, c) * gain;
        for (int64_t n = 0; n < batch; ++n) {
          const int64_t at = (n * channels + c) * spatial;
          AffineRow<T>(static_cast<const T*>(in) + at, static_cast<T*>(out) + at, spatial, 0,
                       static_cast<V>(gain), static_cast<V>(offset));
        }
      }
    });
  });
}

void Lrn(DType dtype, int64_t batch, int64_t channels, int64_t spatial, int64_t size, float alpha,
         float beta, float bias, const void* in, void* out, Team& team) {
  // A window beyond the channels covers them all.
  const int64_t before = std::min((size - 1) / 2, channels);
  const int64_t after = std::min(size - 1 - (size - 1) / 2, channels);
  const int64_t blocks = CeilDiv(spatial, kNormColumns);
  DispatchFloat(dtype, [&]<class T>() {
    using V = ComputeOf<T>;
    const V scale = static_cast<V>(alpha) / static_cast<V>(size);
    const int64_t work = channels * (before + 1 + after) * std::min(spatial, kNormColumns);
    ForRanges(batch * blocks, RowsPerTask(work), team, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t at = task % blocks * kNormColumns;
        const int64_t offset = task / blocks * channels * spatial + at;
        LrnBlock<T>(static_cast<const T*>(in) + offset, static_cast<T*>(out) + offset, channels,
                    spatial, std::min(kNormColumns, spatial - at), before, after, scale,
                    static_cast<V>(beta), static_cast<V>(bias));
      }
    });
  });
}

}  // namespace parallax::kernels
