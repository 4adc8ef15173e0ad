#include "kernels/conv/depthwise_direct.h"

#include <utility>

#include "base/checked.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise_direct.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/clamp-inl.h"

#include "kernels/copy-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;

// Lanes whose input column (c + lane) * stride + tap - pad exists.
template <int kStride>
HWY_INLINE M ColumnMask(const DirectPlaneArgs& a, int64_t c, int64_t tap) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t before = HWY_MAX(a.pad_column - tap, static_cast<int64_t>(0));
  const int64_t last = HWY_MAX(a.in_columns + a.pad_column - tap, static_cast<int64_t>(0));
  const int64_t first = (before + kStride - 1) / kStride - c;
  const int64_t end = (last + kStride - 1) / kStride - c;
  const auto clip = [lanes](int64_t n) HWY_ATTR {
    return static_cast<size_t>(n < 0 ? 0 : n > lanes ? lanes : n);
  };
  return hn::AndNot(hn::FirstN(d, clip(first)), hn::FirstN(d, clip(end)));
}

HWY_INLINE void StoreWhole(const DirectPlaneArgs& a, V x, int64_t at) {
  const D d;
  if (a.residual != nullptr) x = hn::Add(x, hn::LoadU(d, a.residual + at));
  if (a.clamp) x = Clamp(d, x, hn::Set(d, a.lo), hn::Set(d, a.hi));
  hn::StoreU(x, d, a.out + at);
}

// The first n lanes only.
HWY_INLINE void StorePart(const DirectPlaneArgs& a, V x, int64_t at, int64_t n) {
  const D d;
  HWY_ALIGN float part[hn::MaxLanes(D())];
  if (a.residual != nullptr) {
    hn::Store(hn::Zero(d), d, part);
    CopyFloats(a.residual + at, n, part);
    x = hn::Add(x, hn::Load(d, part));
  }
  if (a.clamp) x = Clamp(d, x, hn::Set(d, a.lo), hn::Set(d, a.hi));
  hn::Store(x, d, part);
  CopyFloats(part, n, a.out + at);
}

// Up to four rows of sums at column c from block row r on. A partial vector may run over into the
// row below, which is stored later (columns go from right to left, rows downwards), but not past
// the block; and not where a residual is read, which may be the output.
HWY_INLINE void StoreRows(const DirectPlaneArgs& a, int64_t r, int64_t c, V s0, V s1, V s2, V s3) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t width = a.out_columns, at = r * width + c;
  const bool whole = c + lanes <= width;
  const bool fits = a.residual == nullptr && at + 3 * width + lanes <= a.rows * width;
  if (r + 4 <= a.rows && (whole || fits)) {
    StoreWhole(a, s0, at);
    StoreWhole(a, s1, at + width);
    StoreWhole(a, s2, at + 2 * width);
    StoreWhole(a, s3, at + 3 * width);
    return;
  }
  const int64_t n = HWY_MIN(lanes, width - c);
  StorePart(a, s0, at, n);
  if (r + 1 < a.rows) StorePart(a, s1, at + width, n);
  if (r + 2 < a.rows) StorePart(a, s2, at + 2 * width, n);
  if (r + 3 < a.rows) StorePart(a, s3, at + 3 * width, n);
}

// sum += weights[kernel row][0..4] * x0..x4, when this input row is under that output row's kernel.
template <int kKernel, int kKernelRow>
HWY_INLINE void AddRow(const float* weights, V x0, V x1, V x2, V x3, V x4, V& sum) {
  if constexpr (kKernelRow >= 0 && kKernelRow < kKernel) {
    const D d;
    const float* w = weights + kKernelRow * kKernel;
    sum = hn::MulAdd(hn::Set(d, w[0]), x0, sum);
    sum = hn::MulAdd(hn::Set(d, w[1]), x1, sum);
    sum = hn::MulAdd(hn::Set(d, w[2]), x2, sum);
    if constexpr (kKernel == 5) {
      sum = hn::MulAdd(hn::Set(d, w[3]), x3, sum);
      sum = hn::MulAdd(hn::Set(d, w[4]), x4, sum);
    }
  }
}

// Input row `kRow` of those that four rows of outputs read.
template <int kKernel, int kStride, int kRow>
HWY_INLINE void AddInputRow(const DirectPlaneArgs& a, int64_t first_row, int64_t c, M m0, M m1,
                            M m2, M m3, M m4, V& s0, V& s1, V& s2, V& s3) {
  const int64_t ih = first_row + kRow;
  if (ih < 0 || ih >= a.in_rows) return;
  const D d;
  const float* from = a.plane + ih * a.in_columns + c * kStride - a.pad_column;
  V x0, x1, x2, x3, x4;
  if constexpr (kStride == 1) {
    x0 = hn::LoadU(d, from);
    x1 = hn::LoadU(d, from + 1);
    x2 = hn::LoadU(d, from + 2);
    x3 = kKernel == 5 ? hn::LoadU(d, from + 3) : x2;
    x4 = kKernel == 5 ? hn::LoadU(d, from + 4) : x2;
  } else {
    hn::LoadInterleaved2(d, from, x0, x1);
    hn::LoadInterleaved2(d, from + 2, x2, x3);
    x4 = x3;
    V unused;
    if constexpr (kKernel == 5) hn::LoadInterleaved2(d, from + 4, x4, unused);
  }
  x0 = hn::IfThenElseZero(m0, x0);
  x1 = hn::IfThenElseZero(m1, x1);
  x2 = hn::IfThenElseZero(m2, x2);
  if constexpr (kKernel == 5) {
    x3 = hn::IfThenElseZero(m3, x3);
    x4 = hn::IfThenElseZero(m4, x4);
  }
  AddRow<kKernel, kRow>(a.weights, x0, x1, x2, x3, x4, s0);
  AddRow<kKernel, kRow - kStride>(a.weights, x0, x1, x2, x3, x4, s1);
  AddRow<kKernel, kRow - 2 * kStride>(a.weights, x0, x1, x2, x3, x4, s2);
  AddRow<kKernel, kRow - 3 * kStride>(a.weights, x0, x1, x2, x3, x4, s3);
}

template <int kKernel, int kStride, int... kRows>
HWY_INLINE void AddInputRows(std::integer_sequence<int, kRows...>, const DirectPlaneArgs& a,
                             int64_t first_row, int64_t c, M m0, M m1, M m2, M m3, M m4, V& s0,
                             V& s1, V& s2, V& s3) {
  (AddInputRow<kKernel, kStride, kRows>(a, first_row, c, m0, m1, m2, m3, m4, s0, s1, s2, s3), ...);
}

// All rows of the block at one vector of columns.
template <int kKernel, int kStride>
HWY_INLINE void DirectColumns(const DirectPlaneArgs& a, int64_t c) {
  const D d;
  const M m0 = ColumnMask<kStride>(a, c, 0), m1 = ColumnMask<kStride>(a, c, 1);
  const M m2 = ColumnMask<kStride>(a, c, 2);
  const M m3 = kKernel == 5 ? ColumnMask<kStride>(a, c, 3) : m2;
  const M m4 = kKernel == 5 ? ColumnMask<kStride>(a, c, 4) : m2;
  for (int64_t r = 0; r < a.rows; r += 4) {
    const int64_t row = (a.row + r) * kStride - a.pad_row;
    V s0 = hn::Set(d, a.bias), s1 = s0, s2 = s0, s3 = s0;
    AddInputRows<kKernel, kStride>(std::make_integer_sequence<int, 3 * kStride + kKernel>(), a, row,
                                   c, m0, m1, m2, m3, m4, s0, s1, s2, s3);
    StoreRows(a, r, c, s0, s1, s2, s3);
  }
}

template <int kKernel, int kStride>
HWY_INLINE void DirectPlaneBy(const DirectPlaneArgs& args) {
  // Copies that no store to the output can change, as far as the compiler knows.
  DirectPlaneArgs a = args;
  float weights[kKernel * kKernel];
  for (int i = 0; i < kKernel * kKernel; ++i) weights[i] = args.weights[i];
  a.weights = weights;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t c = (a.out_columns - 1) / lanes * lanes; c >= 0; c -= lanes) {
    DirectColumns<kKernel, kStride>(a, c);
  }
}

void Direct3Stride1(const DirectPlaneArgs& a) { DirectPlaneBy<3, 1>(a); }
void Direct3Stride2(const DirectPlaneArgs& a) { DirectPlaneBy<3, 2>(a); }
void Direct5Stride1(const DirectPlaneArgs& a) { DirectPlaneBy<5, 1>(a); }
void Direct5Stride2(const DirectPlaneArgs& a) { DirectPlaneBy<5, 2>(a); }

int64_t DirectLanes() { return static_cast<int64_t>(hn::Lanes(D())); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(Direct3Stride1);
HWY_EXPORT(Direct3Stride2);
HWY_EXPORT(Direct5Stride1);
HWY_EXPORT(Direct5Stride2);
HWY_EXPORT(DirectLanes);
}  // namespace

bool HasDirectPlane(const ConvAxes& axes) {
  const ConvAxis &rows = axes.rows, &columns = axes.columns;
  return axes.depth.kernel == 1 && axes.depth.in == 1 && axes.depth.out == 1 &&
         rows.kernel == columns.kernel && (rows.kernel == 3 || rows.kernel == 5) &&
         rows.stride == columns.stride && rows.stride <= 2 && rows.dilation == 1 &&
         columns.dilation == 1 && columns.in > 0 && columns.pad >= 0;
}

PlaneReach DirectPlaneReach(const ConvAxes& axes) {
  const ConvAxis& c = axes.columns;
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(DirectLanes)();
  // The last vector starts at the last output column at the latest and reads pairs of vectors.
  const int64_t last = (c.out - 1) * c.stride - c.pad + c.kernel + 1 + c.stride * lanes;
  return {.before = c.pad, .after = (axes.rows.in - 1) * c.in + (last > c.in ? last : c.in)};
}

void DirectPlane(const ConvAxes& axes, const DirectPlaneArgs& args) {
  if (axes.rows.kernel == 3 && axes.rows.stride == 1) HWY_DYNAMIC_DISPATCH(Direct3Stride1)(args);
  if (axes.rows.kernel == 3 && axes.rows.stride == 2) HWY_DYNAMIC_DISPATCH(Direct3Stride2)(args);
  if (axes.rows.kernel == 5 && axes.rows.stride == 1) HWY_DYNAMIC_DISPATCH(Direct5Stride1)(args);
  if (axes.rows.kernel == 5 && axes.rows.stride == 2) HWY_DYNAMIC_DISPATCH(Direct5Stride2)(args);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
