#include "kernels/norm/norm_f32.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/reduce/reduce_f32.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/elementwise/map-inl.h"
#include "kernels/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

// Exponentials of a line this long or shorter wait in an aligned buffer: read back from `out`,
// where rows start anywhere, stores that straddle cache lines would not be forwarded in time.
constexpr size_t kSoftmaxBuffer = 1024;

// One line, n > 0. The tail stays in a vector of its own, padded with -infinity, whose exponential
// is 0. Max may lose a NaN here: the sum still has it, and with it every element of the line.
void SoftmaxRowTarget(const float* in, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t body = n - n % lanes;
  auto tail = hn::IfThenElse(hn::FirstN(d, n - body), LoadTail(d, in + body, n - body),
                             hn::Set(d, -std::numeric_limits<float>::infinity()));

  // Four in step here and below: one would wait for itself.
  auto max = tail, max1 = tail, max2 = tail, max3 = tail;
  size_t at = 0;
  for (; at + 4 * lanes <= body; at += 4 * lanes) {
    max = hn::Max(max, hn::LoadU(d, in + at));
    max1 = hn::Max(max1, hn::LoadU(d, in + at + lanes));
    max2 = hn::Max(max2, hn::LoadU(d, in + at + 2 * lanes));
    max3 = hn::Max(max3, hn::LoadU(d, in + at + 3 * lanes));
  }
  for (; at < body; at += lanes) max = hn::Max(max, hn::LoadU(d, in + at));
  max = hn::MaxOfLanes(d, hn::Max(hn::Max(max, max1), hn::Max(max2, max3)));

  HWY_ALIGN float buffer[kSoftmaxBuffer];
  float* const exps = n <= kSoftmaxBuffer ? buffer : out;
  double sum = 0;
  const size_t run = kSumRun - kSumRun % lanes;
  for (size_t begin = 0; begin < body; begin += run) {
    const size_t end = HWY_MIN(body, begin + run);
    auto s0 = hn::Zero(d);
    auto s1 = hn::Zero(d);
    size_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      const auto e0 = ExpNeg(d, hn::Sub(hn::LoadU(d, in + i), max));
      const auto e1 = ExpNeg(d, hn::Sub(hn::LoadU(d, in + i + lanes), max));
      const auto e2 = ExpNeg(d, hn::Sub(hn::LoadU(d, in + i + 2 * lanes), max));
      const auto e3 = ExpNeg(d, hn::Sub(hn::LoadU(d, in + i + 3 * lanes), max));
      hn::StoreU(e0, d, exps + i);
      hn::StoreU(e1, d, exps + i + lanes);
      hn::StoreU(e2, d, exps + i + 2 * lanes);
      hn::StoreU(e3, d, exps + i + 3 * lanes);
      s0 = hn::Add(s0, hn::Add(e0, e2));
      s1 = hn::Add(s1, hn::Add(e1, e3));
    }
    for (; i < end; i += lanes) {
      const auto e = ExpNeg(d, hn::Sub(hn::LoadU(d, in + i), max));
      hn::StoreU(e, d, exps + i);
      s0 = hn::Add(s0, e);
    }
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))));
  }
  if (body < n) {
    tail = ExpNeg(d, hn::Sub(tail, max));
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, tail)));
  }

  const auto factor = hn::Set(d, static_cast<float>(1 / sum));
  for (size_t i = 0; i < body; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, exps + i), factor), d, out + i);
  }
  if (body < n) StoreTail(hn::Mul(tail, factor), d, out + body, n - body);
}

void AffineTarget(const float* in, float* out, size_t n, float shift, float scale, float offset) {
  Map(in, out, n, [shift, scale, offset](auto d, auto x) HWY_ATTR {
    return hn::MulAdd(hn::Sub(x, hn::Set(d, shift)), hn::Set(d, scale), hn::Set(d, offset));
  });
}

// out[c] = exp(in[c] - max[c]) and sum[c] += that.
HWY_NOINLINE void ExpRow(const float* in, const float* max, float* out, float* sum, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    const auto e = ExpNeg(d, hn::Sub(hn::LoadU(d, in + c), hn::LoadU(d, max + c)));
    hn::StoreU(e, d, out + c);
    hn::StoreU(hn::Add(hn::LoadU(d, sum + c), e), d, sum + c);
  }
  if (c == n) return;
  const auto x = hn::Sub(LoadTail(d, in + c, n - c), LoadTail(d, max + c, n - c));
  const auto e = ExpNeg(d, x);
  StoreTail(e, d, out + c, n - c);
  StoreTail(hn::Add(LoadTail(d, sum + c, n - c), e), d, sum + c, n - c);
}

void ExpRowsTarget(const float* in, const float* max, float* out, float* sum, size_t rows,
                   size_t stride, size_t cols) {
  for (size_t r = 0; r < rows; ++r) ExpRow(in + r * stride, max, out + r * stride, sum, cols);
}

template <bool kGain, bool kBias>
HWY_NOINLINE void Normalize(const float* in, float* out, size_t n, float shift, float scale,
                            const float* gain, const float* bias) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto vshift = hn::Set(d, shift);
  const auto vscale = hn::Set(d, scale);
  for (size_t i = 0; i < n; i += lanes) {
    const bool whole = i + lanes <= n;
    const auto load = [&](const float* p) HWY_ATTR {
      return whole ? hn::LoadU(d, p + i) : LoadTail(d, p + i, n - i);
    };
    auto v = hn::Mul(hn::Sub(load(in), vshift), vscale);
    if constexpr (kGain && kBias) {
      v = hn::MulAdd(v, load(gain), load(bias));
    } else if constexpr (kGain) {
      v = hn::Mul(v, load(gain));
    } else if constexpr (kBias) {
      v = hn::Add(v, load(bias));
    }
    if (HWY_LIKELY(whole)) {
      hn::StoreU(v, d, out + i);
    } else {
      StoreTail(v, d, out + i, n - i);
    }
  }
}

void NormalizeTarget(const float* in, float* out, size_t n, float shift, float scale,
                     const float* gain, const float* bias) {
  if (gain != nullptr && bias != nullptr) {
    Normalize<true, true>(in, out, n, shift, scale, gain, bias);
  } else if (gain != nullptr) {
    Normalize<true, false>(in, out, n, shift, scale, gain, bias);
  } else if (bias != nullptr) {
    Normalize<false, true>(in, out, n, shift, scale, gain, bias);
  } else {
    Normalize<false, false>(in, out, n, shift, scale, gain, bias);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {

HWY_EXPORT(SoftmaxRowTarget);
HWY_EXPORT(AffineTarget);
HWY_EXPORT(ExpRowsTarget);
HWY_EXPORT(NormalizeTarget);

namespace {
constexpr float kInf = std::numeric_limits<float>::infinity();
}

void SoftmaxRowF32(SoftmaxKind kind, const float* in, float* out, int64_t n) {
  const size_t count = static_cast<size_t>(n);
  if (kind == SoftmaxKind::kLogSoftmax) {
    const float max = ExtremeF32(Extreme::kMax, in, n, -kInf);
    const double log = std::log(SumExpF32(in, n, max));
    return HWY_DYNAMIC_DISPATCH(AffineTarget)(in, out, count, max, 1.0f, static_cast<float>(-log));
  }
  HWY_DYNAMIC_DISPATCH(SoftmaxRowTarget)(in, out, count);
}

void SoftmaxColumnsF32(SoftmaxKind kind, const float* in, float* out, int64_t axis, int64_t stride,
                       int64_t cols) {
  float max[kNormColumns];
  float factor[kNormColumns];
  double sum[kNormColumns] = {};
  std::fill(max, max + cols, -kInf);
  ExtremeRowsF32(Extreme::kMax, in, stride, axis, cols, max);
  const size_t width = static_cast<size_t>(cols);
  const bool log = kind == SoftmaxKind::kLogSoftmax;
  // Sums of at most kRowRun terms in f32, added in f64. LogSoftmax must keep `in`, which may be
  // `out`: its exponentials go to a scratch row.
  float scratch[kNormColumns];
  for (int64_t k = 0; k < axis; k += kRowRun) {
    float part[kNormColumns] = {};
    const int64_t rows = std::min(kRowRun, axis - k);
    if (log) {
      for (int64_t r = 0; r < rows; ++r) {
        HWY_DYNAMIC_DISPATCH(ExpRowsTarget)(in + (k + r) * stride, max, scratch, part, 1, 0, width);
      }
    } else {
      HWY_DYNAMIC_DISPATCH(ExpRowsTarget)
      (in + k * stride, max, out + k * stride, part, static_cast<size_t>(rows),
       static_cast<size_t>(stride), width);
    }
    for (int64_t c = 0; c < cols; ++c) sum[c] += static_cast<double>(part[c]);
  }
  for (int64_t c = 0; c < cols; ++c) {
    factor[c] = static_cast<float>(log ? -std::log(sum[c]) : 1 / sum[c]);
  }
  for (int64_t k = 0; k < axis; ++k) {
    if (log) {
      // Two subtractions, as along memory: max and log may differ widely in size.
      for (int64_t c = 0; c < cols; ++c) {
        out[k * stride + c] = (in[k * stride + c] - max[c]) + factor[c];
      }
    } else {
      NormalizeF32(out + k * stride, out + k * stride, cols, 0, 1, factor, nullptr);
    }
  }
}

void NormalizeF32(const float* in, float* out, int64_t n, float shift, float scale,
                  const float* gain, const float* bias) {
  HWY_DYNAMIC_DISPATCH(NormalizeTarget)
  (in, out, static_cast<size_t>(n), shift, scale, gain, bias);
}

void AffineF32(const float* in, float* out, int64_t n, float shift, float scale, float offset) {
  HWY_DYNAMIC_DISPATCH(AffineTarget)(in, out, static_cast<size_t>(n), shift, scale, offset);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
