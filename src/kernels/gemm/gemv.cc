#include "kernels/gemm/gemv.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemv.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// One row: four independent sums hide the latency of the FMA; the last partial vector is scalar.
void DotRowsImpl(const float* matrix, int64_t ld, int64_t rows, int64_t k, const float* x,
                 float* out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT m = matrix + r * ld;
    V s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    int64_t i = 0;
    for (; i + 4 * lanes <= k; i += 4 * lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, m + i), hn::LoadU(d, x + i), s0);
      s1 = hn::MulAdd(hn::LoadU(d, m + i + lanes), hn::LoadU(d, x + i + lanes), s1);
      s2 = hn::MulAdd(hn::LoadU(d, m + i + 2 * lanes), hn::LoadU(d, x + i + 2 * lanes), s2);
      s3 = hn::MulAdd(hn::LoadU(d, m + i + 3 * lanes), hn::LoadU(d, x + i + 3 * lanes), s3);
    }
    for (; i + lanes <= k; i += lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, m + i), hn::LoadU(d, x + i), s0);
    }
    const V sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < k; ++i) total += m[i] * x[i];
    out[r] = total;
  }
}

// Four rows at a time into `out`, which stays in L1 (the caller bounds `columns`).
void SumRowsImpl(const float* matrix, int64_t ld, int64_t rows, int64_t columns, const float* x,
                 float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < columns; ++j) out[j] = 0.0f;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* HWY_RESTRICT m0 = matrix + r * ld;
    const float* HWY_RESTRICT m1 = m0 + ld;
    const float* HWY_RESTRICT m2 = m1 + ld;
    const float* HWY_RESTRICT m3 = m2 + ld;
    const auto x0 = hn::Set(d, x[r]), x1 = hn::Set(d, x[r + 1]);
    const auto x2 = hn::Set(d, x[r + 2]), x3 = hn::Set(d, x[r + 3]);
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      auto sum = hn::MulAdd(x0, hn::LoadU(d, m0 + j), hn::LoadU(d, out + j));
      sum = hn::MulAdd(x1, hn::LoadU(d, m1 + j), sum);
      sum = hn::MulAdd(x2, hn::LoadU(d, m2 + j), sum);
      sum = hn::MulAdd(x3, hn::LoadU(d, m3 + j), sum);
      hn::StoreU(sum, d, out + j);
    }
    for (; j < columns; ++j) {
      out[j] += x[r] * m0[j] + x[r + 1] * m1[j] + x[r + 2] * m2[j] + x[r + 3] * m3[j];
    }
  }
  for (; r < rows; ++r) {
    const float* HWY_RESTRICT m = matrix + r * ld;
    const auto xv = hn::Set(d, x[r]);
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      hn::StoreU(hn::MulAdd(xv, hn::LoadU(d, m + j), hn::LoadU(d, out + j)), d, out + j);
    }
    for (; j < columns; ++j) out[j] += x[r] * m[j];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(DotRowsImpl);
HWY_EXPORT(SumRowsImpl);
}  // namespace

void DotRows(const float* matrix, int64_t ld, int64_t rows, int64_t k, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(DotRowsImpl)(matrix, ld, rows, k, x, out);
}

void SumRows(const float* matrix, int64_t ld, int64_t rows, int64_t columns, const float* x,
             float* out) {
  HWY_DYNAMIC_DISPATCH(SumRowsImpl)(matrix, ld, rows, columns, x, out);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
