// Blocks of a depthwise convolution with channels last: some neighbouring outputs of one row, or of two,
// for one vector of channels, in registers; compiled once per target.
//
// Role:       included by depthwise_last.cc, which walks over the outputs.
// Threads:    pure apart from the outputs.
// Invariants: each sum gets its taps in ascending order, whatever block it is computed in.
#if defined(PARALLAX_KERNELS_CONV_DEPTHWISE_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_CONV_DEPTHWISE_BLOCK_INL_H_
#undef PARALLAX_KERNELS_CONV_DEPTHWISE_BLOCK_INL_H_
#else
#define PARALLAX_KERNELS_CONV_DEPTHWISE_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/conv/depthwise_block.h"
#include "kernels/conv/finish-inl.h"
#include "kernels/inner_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// One vector of channels, n of them, at neighbouring outputs: a whole one, or the last.
template <bool kWhole>
struct Lane {
  static constexpr bool whole = kWhole;
  int64_t c;
  size_t n;
  HWY_INLINE V Load(const float* p) const { return LoadLanes(D(), p, kWhole, n); }
};

template <class L>
HWY_INLINE void StoreOne(const DepthwiseLastArgs& a, const L& lane, V y, int64_t at) {
  const D d;
  FinishLanes(d, y, a.residual != nullptr ? a.residual + at : nullptr, /*clamp=*/true,
              hn::Set(d, a.lo), hn::Set(d, a.hi), a.output + at, L::whole, lane.n);
}

// Which inputs of a block of outputs are there.
enum class Reach : uint8_t {
  kInside,   // all inputs
  kAlmost,   // all but the first or the last one, or both
  kPartial,  // any; and fewer outputs than there could be
};
// A block of outputs of one row, or of two: the tap rows that reach into the input, its first column
// and how many there are; and of the input columns that its windows cover the range [lo, hi) that
// lies in the row.
struct Place {
  int64_t oh = 0, kh_begin = 0, kh_end = 0;
  int64_t ow = 0, count = 0;
  int64_t lo = 0, hi = 0;
  int64_t c_begin = 0, c_end = 0;  // channels
};

// Whether input `i` of a block is read, which may be its first or last one.
template <Reach kReach>
HWY_INLINE bool Reads(const Place& p, int64_t i, bool first, bool last) {
  if constexpr (kReach == Reach::kInside) return true;
  if constexpr (kReach == Reach::kAlmost) return !(first && p.lo > 0) && !(last && p.hi <= i);
  return i >= p.lo && i < p.hi;
}

// What one input row adds to kCount neighbouring outputs of one row, or of two where kBoth, by three
// taps each: u for the sums s, w for t. Every input is loaded once, those outside the row are left out
// (see Reach); `x` is the first one, the others
// follow `step` floats apart. Each sum gets its taps in ascending order, as everywhere.
template <int kCount, bool kBoth, Reach kReach, class L>
HWY_INLINE void AddRow(const L& lane, const float* x, int64_t step, const Place& p, V u0, V u1,
                       V u2, V& s0, V& s1, V& s2, V& s3, V& s4, V& s5, V& s6, V& s7, V w0, V w1,
                       V w2, V& t0, V& t1, V& t2, V& t3, V& t4, V& t5, V& t6, V& t7) {
  x = Opaque(x);
  // Input i is the last tap of output a = i - 2, the middle one of b = i - 1, the first of c = i.
#define PX_INPUT(i, a, b, c)                                                        \
  if constexpr (i < kCount + 2) {                                                   \
    if (Reads<kReach>(p, i, i == 0, i == kCount + 1)) {                             \
      const V v = lane.Load(x);                                                     \
      if constexpr (i >= 2) s##a = hn::MulAdd(u2, v, s##a);                         \
      if constexpr (i >= 1 && i <= kCount) s##b = hn::MulAdd(u1, v, s##b);          \
      if constexpr (i < kCount) s##c = hn::MulAdd(u0, v, s##c);                     \
      if constexpr (kBoth && i >= 2) t##a = hn::MulAdd(w2, v, t##a);                \
      if constexpr (kBoth && i >= 1 && i <= kCount) t##b = hn::MulAdd(w1, v, t##b); \
      if constexpr (kBoth && i < kCount) t##c = hn::MulAdd(w0, v, t##c);            \
    }                                                                               \
    x += step;                                                                      \
  }
  PX_INPUT(0, 0, 0, 0)
  PX_INPUT(1, 0, 0, 1)
  PX_INPUT(2, 0, 1, 2)
  PX_INPUT(3, 1, 2, 3)
  PX_INPUT(4, 2, 3, 4)
  PX_INPUT(5, 3, 4, 5)
  PX_INPUT(6, 4, 5, 6)
  PX_INPUT(7, 5, 6, 7)
  PX_INPUT(8, 6, 7, 7)
  PX_INPUT(9, 7, 7, 7)
#undef PX_INPUT
}

// The same for stride 2 and one row of outputs.
template <int kCount, Reach kReach, class L>
HWY_INLINE void AddRowBy2(const L& lane, const float* x, int64_t step, const Place& p, V w0, V w1,
                          V w2, V& s0, V& s1, V& s2, V& s3, V& s4, V& s5, V& s6, V& s7) {
  x = Opaque(x);
  // Input 2 i is the last tap of output i - 1 and the first of i, the one after it the middle one.
#define PX_INPUTS(i, before, s)                                 \
  if constexpr (i <= kCount) {                                  \
    if (Reads<kReach>(p, 2 * i, i == 0, i == kCount)) {         \
      const V v = lane.Load(x);                                 \
      if constexpr (i >= 1) before = hn::MulAdd(w2, v, before); \
      if constexpr (i < kCount) s = hn::MulAdd(w0, v, s);       \
    }                                                           \
    if constexpr (i < kCount) {                                 \
      if (Reads<kReach>(p, 2 * i + 1, false, false)) {          \
        s = hn::MulAdd(w1, lane.Load(x + step), s);             \
      }                                                         \
    }                                                           \
    x += 2 * step;                                              \
  }
  PX_INPUTS(0, s0, s0)
  PX_INPUTS(1, s0, s1)
  PX_INPUTS(2, s1, s2)
  PX_INPUTS(3, s2, s3)
  PX_INPUTS(4, s3, s4)
  PX_INPUTS(5, s4, s5)
  PX_INPUTS(6, s5, s6)
  PX_INPUTS(7, s6, s7)
  PX_INPUTS(8, s7, s7)
#undef PX_INPUTS
}

// The same for five taps, stride 1, eight outputs of one row.
template <Reach kReach, class L>
HWY_INLINE void AddRowOf5(const L& lane, const float* x, int64_t step, const Place& p, V w0, V w1,
                          V w2, V w3, V w4, V& s0, V& s1, V& s2, V& s3, V& s4, V& s5, V& s6,
                          V& s7) {
  x = Opaque(x);
  // Input i is tap 4 of output a = i - 4, tap 3 of b = i - 3... and tap 0 of e = i.
#define PX_INPUT(i, a, b, c, d, e)                                  \
  if (Reads<kReach>(p, i, i == 0, i == 11)) {                       \
    const V v = lane.Load(x);                                       \
    if constexpr (i >= 4) s##a = hn::MulAdd(w4, v, s##a);           \
    if constexpr (i >= 3 && i < 11) s##b = hn::MulAdd(w3, v, s##b); \
    if constexpr (i >= 2 && i < 10) s##c = hn::MulAdd(w2, v, s##c); \
    if constexpr (i >= 1 && i < 9) s##d = hn::MulAdd(w1, v, s##d);  \
    if constexpr (i < 8) s##e = hn::MulAdd(w0, v, s##e);            \
  }                                                                 \
  x += step;
  PX_INPUT(0, 0, 0, 0, 0, 0)
  PX_INPUT(1, 0, 0, 0, 0, 1)
  PX_INPUT(2, 0, 0, 0, 1, 2)
  PX_INPUT(3, 0, 0, 1, 2, 3)
  PX_INPUT(4, 0, 1, 2, 3, 4)
  PX_INPUT(5, 1, 2, 3, 4, 5)
  PX_INPUT(6, 2, 3, 4, 5, 6)
  PX_INPUT(7, 3, 4, 5, 6, 7)
  PX_INPUT(8, 4, 5, 6, 7, 7)
  PX_INPUT(9, 5, 6, 7, 7, 7)
  PX_INPUT(10, 6, 7, 7, 7, 7)
  PX_INPUT(11, 7, 7, 7, 7, 7)
#undef PX_INPUT
}

// Where the input of output (oh, ow) at tap (kh, kw) is.
template <class L>
HWY_INLINE const float* InputAt(const DepthwiseLastArgs& a, const L& lane, int64_t oh, int64_t ow,
                                int64_t kh, int64_t kw) {
  const ConvAxis &h = a.axes->rows, &w = a.axes->columns;
  const int64_t ih = oh * h.stride + kh * h.dilation - h.pad;
  const int64_t iw = ow * w.stride + kw * w.dilation - w.pad;
  const int64_t at = ih + a.ring.first;
  return a.input + ((at < a.ring.rows ? at : at - a.ring.rows) * w.in + iw) * a.channels + lane.c;
}

#define PX_FOR_COLUMNS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// Stores kCount outputs of a row from `at` on. Where nothing but a clamp is left to do, no branches
// stand between the stores.
template <int kCount, Reach kReach, class L>
HWY_INLINE void StoreRow(const DepthwiseLastArgs& a, const L& lane, const Place& p, int64_t at,
                         V s0, V s1, V s2, V s3, V s4, V s5, V s6, V s7) {
  const D d;
  const V lo = hn::Set(d, a.lo), hi = hn::Set(d, a.hi);
  if (L::whole && a.residual == nullptr) {
    float* y = a.output + at;
#define PX_STORE(j)                                               \
  if (kCount > j && (kReach != Reach::kPartial || j < p.count)) { \
    hn::StoreU(Clamp(d, s##j, lo, hi), d, y + j * a.channels);    \
  }
    PX_FOR_COLUMNS(PX_STORE)
#undef PX_STORE
    return;
  }
#define PX_STORE(j)                                             \
  if (kCount > j && (kReach != Reach::kPartial || j < p.count)) \
    StoreOne(a, lane, s##j, at + j * a.channels);
  PX_FOR_COLUMNS(PX_STORE)
#undef PX_STORE
}

// kCount outputs of one row. kTaps 0: any kernel, stride and dilation, all inside; else that many taps,
// not dilated, and that stride: 3 with 1 or 2, 5 with 1 and eight outputs.
template <int kTaps, int kStride, int kCount, Reach kReach, class L>
HWY_INLINE void Columns(const DepthwiseLastArgs& a, const L& lane, const Place& p) {
  // By value: a store to the output could change what a pointer leads to.
  const ConvAxis w = a.axes->columns;
  const int64_t channels = a.channels;
  V s0 = a.bias != nullptr ? lane.Load(a.bias + lane.c) : hn::Zero(D());
  V s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const float* weights = a.weights + p.kh_begin * w.kernel * channels + lane.c;
  for (int64_t kh = p.kh_begin; kh < p.kh_end; ++kh) {
    const float* row = InputAt(a, lane, p.oh, p.ow, kh, 0);
    if constexpr (kTaps == 5) {
      const V w0 = lane.Load(weights), w1 = lane.Load(weights + channels);
      const V w2 = lane.Load(weights + 2 * channels), w3 = lane.Load(weights + 3 * channels);
      AddRowOf5<kReach>(lane, row, channels, p, w0, w1, w2, w3, lane.Load(weights + 4 * channels),
                        s0, s1, s2, s3, s4, s5, s6, s7);
      weights += 5 * channels;
      continue;
    }
    if constexpr (kTaps == 3) {
      const V w0 = lane.Load(weights), w1 = lane.Load(weights + channels);
      const V w2 = lane.Load(weights + 2 * channels);
      if constexpr (kStride == 1) {
        V none = w0;
        AddRow<kCount, false, kReach>(lane, row, channels, p, w0, w1, w2, s0, s1, s2, s3, s4, s5,
                                      s6, s7, w0, w1, w2, none, none, none, none, none, none, none,
                                      none);
      } else {
        AddRowBy2<kCount, kReach>(lane, row, channels, p, w0, w1, w2, s0, s1, s2, s3, s4, s5, s6,
                                  s7);
      }
      weights += 3 * channels;
      continue;
    }
    for (int64_t kw = 0; kw < w.kernel; ++kw, weights += channels) {
      const V k = lane.Load(weights);
      const float* x = row + kw * w.dilation * channels;
#define PX_ADD(j) \
  if constexpr (kCount > j) s##j = hn::MulAdd(k, lane.Load(x + j * w.stride * channels), s##j);
      PX_FOR_COLUMNS(PX_ADD)
#undef PX_ADD
    }
  }
  const int64_t at = (p.oh * w.out + p.ow) * channels + lane.c;
  StoreRow<kCount, kReach>(a, lane, p, at, s0, s1, s2, s3, s4, s5, s6, s7);
}

// Two rows of kCount outputs of a 3x3 kernel with stride 1, all whose rows lie inside: an input row
// that both need is read once. What comes from L2 is two thirds, and that is what takes time.
template <int kCount, Reach kReach, class L>
HWY_INLINE void TwoRows(const DepthwiseLastArgs& a, const L& lane, const Place& p) {
  const ConvAxis w = a.axes->columns;
  const int64_t channels = a.channels;
  const auto row = [&](int64_t kh) HWY_ATTR { return InputAt(a, lane, p.oh, p.ow, kh, 0); };
  V s0 = a.bias != nullptr ? lane.Load(a.bias + lane.c) : hn::Zero(D());
  V s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  V t0 = s0, t1 = s0, t2 = s0, t3 = s0, t4 = s0, t5 = s0, t6 = s0, t7 = s0;
  const auto weight = [&](int tap)
                          HWY_ATTR { return lane.Load(a.weights + tap * channels + lane.c); };
  const V k0 = weight(0), k1 = weight(1), k2 = weight(2), k3 = weight(3), k4 = weight(4);
  const V k5 = weight(5), k6 = weight(6), k7 = weight(7), k8 = weight(8);
#define PX_S s0, s1, s2, s3, s4, s5, s6, s7
#define PX_T t0, t1, t2, t3, t4, t5, t6, t7
  AddRow<kCount, false, kReach>(lane, row(0), channels, p, k0, k1, k2, PX_S, k0, k1, k2, PX_T);
  AddRow<kCount, true, kReach>(lane, row(1), channels, p, k3, k4, k5, PX_S, k0, k1, k2, PX_T);
  AddRow<kCount, true, kReach>(lane, row(2), channels, p, k6, k7, k8, PX_S, k3, k4, k5, PX_T);
  AddRow<kCount, false, kReach>(lane, row(3), channels, p, k6, k7, k8, PX_T, k0, k1, k2, PX_S);
  const int64_t at = (p.oh * w.out + p.ow) * channels + lane.c;
  StoreRow<kCount, kReach>(a, lane, p, at, PX_S);
  StoreRow<kCount, kReach>(a, lane, p, at + w.out * channels, PX_T);
#undef PX_T
#undef PX_S
}
#undef PX_FOR_COLUMNS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
