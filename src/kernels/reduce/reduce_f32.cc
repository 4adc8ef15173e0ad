#include "kernels/reduce/reduce_f32.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/elementwise/math-inl.h"
#include "kernels/elementwise/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// sum + term(x).
template <SumTerm kTerm>
HWY_INLINE VF AddTerm(VF x, VF sum) {
  if constexpr (kTerm == SumTerm::kSquare) return hn::MulAdd(x, x, sum);
  if constexpr (kTerm == SumTerm::kAbs) return hn::Add(sum, hn::Abs(x));
  return hn::Add(sum, x);
}

struct Plain {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return x;
  }
};
struct Shifted {
  float shift;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Sub(x, hn::Set(d, shift));
  }
};
struct ShiftedExp {
  float shift;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return Exp(d, hn::Sub(x, hn::Set(d, shift)));
  }
};

// At most kSumRun terms of f(x).
template <SumTerm kTerm, class F>
HWY_INLINE float SumRun(const float* x, size_t n, F f) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  VF s0 = hn::Zero(d);
  VF s1 = s0;
  VF s2 = s0;
  VF s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = AddTerm<kTerm>(f(d, hn::LoadU(d, x + i)), s0);
    s1 = AddTerm<kTerm>(f(d, hn::LoadU(d, x + i + lanes)), s1);
    s2 = AddTerm<kTerm>(f(d, hn::LoadU(d, x + i + 2 * lanes)), s2);
    s3 = AddTerm<kTerm>(f(d, hn::LoadU(d, x + i + 3 * lanes)), s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = AddTerm<kTerm>(f(d, hn::LoadU(d, x + i)), s0);
  if (i < n) {
    const VF v = hn::IfThenElseZero(hn::FirstN(d, n - i), f(d, LoadTail(d, x + i, n - i)));
    s1 = AddTerm<kTerm>(v, s1);
  }
  const VF sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <SumTerm kTerm, class F>
HWY_NOINLINE double SumRuns(const float* x, int64_t n, F f) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kSumRun) {
    sum +=
        static_cast<double>(SumRun<kTerm>(x + i, static_cast<size_t>(std::min(kSumRun, n - i)), f));
  }
  return sum;
}

double SumTarget(SumTerm term, const float* x, int64_t n, float shift) {
  switch (term) {
    case SumTerm::kValue:
      return shift == 0 ? SumRuns<SumTerm::kValue>(x, n, Plain())
                        : SumRuns<SumTerm::kValue>(x, n, Shifted{shift});
    case SumTerm::kAbs:
      return SumRuns<SumTerm::kAbs>(x, n, Shifted{shift});
    default:
      return SumRuns<SumTerm::kSquare>(x, n, Shifted{shift});
  }
}

double SumExpTarget(const float* x, int64_t n, float shift) {
  return SumRuns<SumTerm::kValue>(x, n, ShiftedExp{shift});
}

// A NaN in `a` stays by the mask, one in `b` because the comparison is then false.
template <Extreme kExtreme>
HWY_INLINE VF Better(VF a, VF b) {
  const auto keep = kExtreme == Extreme::kMax ? hn::Gt(a, b) : hn::Lt(a, b);
  return hn::IfThenElse(hn::Or(keep, hn::IsNaN(a)), a, b);
}

template <Extreme kExtreme>
HWY_NOINLINE float ExtremeRun(const float* x, size_t n, float start) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  VF m0 = hn::Set(d, start);
  VF m1 = m0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    m0 = Better<kExtreme>(m0, hn::LoadU(d, x + i));
    m1 = Better<kExtreme>(m1, hn::LoadU(d, x + i + lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = Better<kExtreme>(m0, hn::LoadU(d, x + i));
  if (i < n) {
    const VF tail = hn::IfThenElse(hn::FirstN(d, n - i), LoadTail(d, x + i, n - i), m0);
    m1 = Better<kExtreme>(m1, tail);
  }
  const VF best = Better<kExtreme>(m0, m1);
  if (!hn::AllFalse(d, hn::IsNaN(best))) return std::numeric_limits<float>::quiet_NaN();
  const bool max = kExtreme == Extreme::kMax;
  return hn::GetLane(max ? hn::MaxOfLanes(d, best) : hn::MinOfLanes(d, best));
}

float ExtremeTarget(Extreme extreme, const float* x, int64_t n, float start) {
  const size_t count = static_cast<size_t>(n);
  return extreme == Extreme::kMax ? ExtremeRun<Extreme::kMax>(x, count, start)
                                  : ExtremeRun<Extreme::kMin>(x, count, start);
}

template <SumTerm kTerm>
HWY_NOINLINE void SumRows(const float* x, size_t stride, size_t rows, size_t cols, double* acc) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float sums[2 * hn::MaxLanes(d)];
  size_t c = 0;
  for (; c + 2 * lanes <= cols; c += 2 * lanes) {
    VF s0 = hn::Zero(d);
    VF s1 = s0;
    for (size_t r = 0; r < rows; ++r) {
      s0 = AddTerm<kTerm>(hn::LoadU(d, x + r * stride + c), s0);
      s1 = AddTerm<kTerm>(hn::LoadU(d, x + r * stride + c + lanes), s1);
    }
    hn::Store(s0, d, sums);
    hn::Store(s1, d, sums + lanes);
    for (size_t k = 0; k < 2 * lanes; ++k) acc[c + k] += static_cast<double>(sums[k]);
  }
  for (; c < cols; c += lanes) {
    const size_t count = HWY_MIN(lanes, cols - c);
    VF s = hn::Zero(d);
    for (size_t r = 0; r < rows; ++r) {
      s = AddTerm<kTerm>(LoadTail(d, x + r * stride + c, count), s);
    }
    hn::Store(s, d, sums);
    for (size_t k = 0; k < count; ++k) acc[c + k] += static_cast<double>(sums[k]);
  }
}

void SumRowsTarget(SumTerm term, const float* x, size_t stride, size_t rows, size_t cols,
                   double* acc) {
  switch (term) {
    case SumTerm::kValue:
      return SumRows<SumTerm::kValue>(x, stride, rows, cols, acc);
    case SumTerm::kAbs:
      return SumRows<SumTerm::kAbs>(x, stride, rows, cols, acc);
    default:
      return SumRows<SumTerm::kSquare>(x, stride, rows, cols, acc);
  }
}

template <Extreme kExtreme>
HWY_NOINLINE void ExtremeRows(const float* x, size_t stride, size_t rows, size_t cols, float* acc) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + lanes <= cols; c += lanes) {
    VF m = hn::LoadU(d, acc + c);
    for (size_t r = 0; r < rows; ++r) m = Better<kExtreme>(m, hn::LoadU(d, x + r * stride + c));
    hn::StoreU(m, d, acc + c);
  }
  for (; c < cols; ++c) {
    float m = acc[c];
    for (size_t r = 0; r < rows && m == m; ++r) {
      const float v = x[r * stride + c];
      if (v != v || (kExtreme == Extreme::kMax ? v > m : v < m)) m = v;
    }
    acc[c] = m;
  }
}

void ExtremeRowsTarget(Extreme extreme, const float* x, size_t stride, size_t rows, size_t cols,
                       float* acc) {
  if (extreme == Extreme::kMax) return ExtremeRows<Extreme::kMax>(x, stride, rows, cols, acc);
  ExtremeRows<Extreme::kMin>(x, stride, rows, cols, acc);
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {

HWY_EXPORT(SumTarget);
HWY_EXPORT(SumExpTarget);
HWY_EXPORT(ExtremeTarget);
HWY_EXPORT(SumRowsTarget);
HWY_EXPORT(ExtremeRowsTarget);

double SumF32(SumTerm term, const float* x, int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(SumTarget)(term, x, n, shift);
}

double SumExpF32(const float* x, int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(SumExpTarget)(x, n, shift);
}

float ExtremeF32(Extreme extreme, const float* x, int64_t n, float start) {
  return HWY_DYNAMIC_DISPATCH(ExtremeTarget)(extreme, x, n, start);
}

void SumRowsF32(SumTerm term, const float* x, int64_t stride, int64_t rows, int64_t cols,
                double* acc) {
  for (int64_t r = 0; r < rows; r += kRowRun) {
    HWY_DYNAMIC_DISPATCH(SumRowsTarget)
    (term, x + r * stride, static_cast<size_t>(stride),
     static_cast<size_t>(std::min(kRowRun, rows - r)), static_cast<size_t>(cols), acc);
  }
}

void ExtremeRowsF32(Extreme extreme, const float* x, int64_t stride, int64_t rows, int64_t cols,
                    float* acc) {
  HWY_DYNAMIC_DISPATCH(ExtremeRowsTarget)
  (extreme, x, static_cast<size_t>(stride), static_cast<size_t>(rows), static_cast<size_t>(cols),
   acc);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
