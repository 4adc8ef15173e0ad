// Depthwise convolution, channels last: one output channel an input channel, vectors over channels.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise_last.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/conv/finish-inl.h"

#ifndef PARALLAX_KERNELS_CONV_DEPTHWISE_LAST_ARGS_
#define PARALLAX_KERNELS_CONV_DEPTHWISE_LAST_ARGS_
namespace parallax::kernels {

// A block of output rows of one image.
struct DepthwiseLastArgs {
  const ConvAxes* axes = nullptr;
  int64_t channels = 0;
  int64_t row = 0, rows = 0;
  const float* input = nullptr;    // of the image
  const float* weights = nullptr;  // [tap][channels]
  const float* bias = nullptr;
  const float* residual = nullptr;  // of the image
  float* output = nullptr;          // of the image
  bool clamp = false;
  float lo = 0, hi = 0;
};

}  // namespace parallax::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int64_t kLineChannels = 16;
constexpr int64_t kManyChannels = 64;
constexpr int64_t kL1Bytes = 32 << 10;

// Whether the sums of two rows of eight outputs and nine weights have registers.
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_RVV;

// One vector of channels, n of them, at neighbouring outputs.
struct Lane {
  int64_t c;
  size_t n;
  bool whole;
  HWY_INLINE V Load(const float* p) const { return LoadLanes(D(), p, whole, n); }
};

HWY_INLINE void StoreOne(const DepthwiseLastArgs& a, const Lane& lane, V y, int64_t at) {
  const D d;
  FinishLanes(d, y, a.residual != nullptr ? a.residual + at : nullptr, a.clamp, hn::Set(d, a.lo),
              hn::Set(d, a.hi), a.output + at, lane.whole, lane.n);
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

// The pointer, of which the compiler is told nothing: else GCC keeps a pointer to every input of a row
// from one row to the next, more than there are registers for.
HWY_INLINE const float* Opaque(const float* p) {
#if HWY_COMPILER_GCC_ACTUAL
  asm("" : "+r"(p));
#endif
  return p;
}

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
template <int kCount, bool kBoth, Reach kReach>
HWY_INLINE void AddRow(const Lane& lane, const float* x, int64_t step, const Place& p, V u0, V u1,
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
template <int kCount, Reach kReach>
HWY_INLINE void AddRowBy2(const Lane& lane, const float* x, int64_t step, const Place& p, V w0,
                          V w1, V w2, V& s0, V& s1, V& s2, V& s3, V& s4, V& s5, V& s6, V& s7) {
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

// Where the input of output (oh, ow) at tap (kh, kw) is.
HWY_INLINE const float* InputAt(const DepthwiseLastArgs& a, const Lane& lane, int64_t oh,
                                int64_t ow, int64_t kh, int64_t kw) {
  const ConvAxis &h = a.axes->rows, &w = a.axes->columns;
  const int64_t ih = oh * h.stride + kh * h.dilation - h.pad;
  const int64_t iw = ow * w.stride + kw * w.dilation - w.pad;
  return a.input + (ih * w.in + iw) * a.channels + lane.c;
}

#define PX_FOR_COLUMNS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// kCount outputs of one row. kStride 0: any kernel, stride and dilation, all inside; else three taps,
// not dilated, that stride.
template <int kStride, int kCount, Reach kReach>
HWY_INLINE void Columns(const DepthwiseLastArgs& a, const Lane& lane, const Place& p) {
  // By value: a store to the output could change what a pointer leads to.
  const ConvAxis h = a.axes->rows, w = a.axes->columns;
  const int64_t channels = a.channels;
  V s0 = a.bias != nullptr ? lane.Load(a.bias + lane.c) : hn::Zero(D());
  V s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  // Null where there is no input at all.
  const float* row = p.kh_begin < p.kh_end ? InputAt(a, lane, p.oh, p.ow, p.kh_begin, 0) : a.input;
  const float* weights = a.weights + p.kh_begin * w.kernel * channels + lane.c;
  for (int64_t kh = p.kh_begin; kh < p.kh_end; ++kh, row += h.dilation * w.in * channels) {
    if constexpr (kStride > 0) {
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
#define PX_STORE(j)                                             \
  if (kCount > j && (kReach != Reach::kPartial || j < p.count)) \
    StoreOne(a, lane, s##j, at + j * channels);
  PX_FOR_COLUMNS(PX_STORE)
#undef PX_STORE
}

// Two rows of kCount outputs of a 3x3 kernel with stride 1, all whose rows lie inside: an input row
// that both need is read once. What comes from L2 is two thirds, and that is what takes time.
template <int kCount, Reach kReach>
HWY_INLINE void TwoRows(const DepthwiseLastArgs& a, const Lane& lane, const Place& p) {
  const ConvAxis w = a.axes->columns;
  const int64_t channels = a.channels, pitch = w.in * channels;
  const float* row = InputAt(a, lane, p.oh, p.ow, 0, 0);
  V s0 = a.bias != nullptr ? lane.Load(a.bias + lane.c) : hn::Zero(D());
  V s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  V t0 = s0, t1 = s0, t2 = s0, t3 = s0, t4 = s0, t5 = s0, t6 = s0, t7 = s0;
  const auto weight = [&](int tap)
                          HWY_ATTR { return lane.Load(a.weights + tap * channels + lane.c); };
  const V k0 = weight(0), k1 = weight(1), k2 = weight(2), k3 = weight(3), k4 = weight(4);
  const V k5 = weight(5), k6 = weight(6), k7 = weight(7), k8 = weight(8);
#define PX_S s0, s1, s2, s3, s4, s5, s6, s7
#define PX_T t0, t1, t2, t3, t4, t5, t6, t7
  AddRow<kCount, false, kReach>(lane, row, channels, p, k0, k1, k2, PX_S, k0, k1, k2, PX_T);
  AddRow<kCount, true, kReach>(lane, row + pitch, channels, p, k3, k4, k5, PX_S, k0, k1, k2, PX_T);
  AddRow<kCount, true, kReach>(lane, row + 2 * pitch, channels, p, k6, k7, k8, PX_S, k3, k4, k5,
                               PX_T);
  AddRow<kCount, false, kReach>(lane, row + 3 * pitch, channels, p, k6, k7, k8, PX_T, k0, k1, k2,
                                PX_S);
#undef PX_T
#undef PX_S
  const int64_t at = (p.oh * w.out + p.ow) * channels + lane.c, below = at + w.out * channels;
#define PX_STORE(j)                                             \
  if (kCount > j && (kReach != Reach::kPartial || j < p.count)) \
    StoreOne(a, lane, s##j, at + j * channels);
  PX_FOR_COLUMNS(PX_STORE)
#undef PX_STORE
#define PX_STORE(j)                                             \
  if (kCount > j && (kReach != Reach::kPartial || j < p.count)) \
    StoreOne(a, lane, t##j, below + j * channels);
  PX_FOR_COLUMNS(PX_STORE)
#undef PX_STORE
}
#undef PX_FOR_COLUMNS

// Taps [begin, end) of an axis that lie in the input for output `at`.
HWY_INLINE void Clip(const ConvAxis& axis, int64_t at, int64_t& begin, int64_t& end) {
  const int64_t origin = at * axis.stride - axis.pad;
  begin = origin >= 0 ? 0 : HWY_MIN((-origin + axis.dilation - 1) / axis.dilation, axis.kernel);
  const int64_t room = axis.in - origin;
  end = room <= 0 ? 0 : HWY_MIN((room + axis.dilation - 1) / axis.dilation, axis.kernel);
  end = HWY_MAX(end, begin);
}

// Calls f(lane) for each vector of the channels [c, channels).
template <class F>
HWY_INLINE void ForEachLane(int64_t c, int64_t channels, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (; c + lanes <= channels; c += lanes) f(Lane{c, static_cast<size_t>(lanes), true});
  if (c < channels) f(Lane{c, static_cast<size_t>(channels - c), false});
}

// One row of outputs, or two, of three taps.
template <int kStride, bool kTwoRows>
HWY_INLINE void RowOf3(const DepthwiseLastArgs& a, Place p) {
  constexpr int kCount = kTwoRows && !kManyRegisters ? 4 : 8;  // more than the latency of the FMA
  constexpr int64_t kInputs = (kCount - 1) * kStride + 3;
  const ConvAxis& w = a.axes->columns;
  const auto block = [&](auto reach) HWY_ATTR {
    constexpr Reach kReach = decltype(reach)::value;
    ForEachLane(p.c_begin, p.c_end, [&](const Lane& lane) HWY_ATTR {
      if constexpr (kTwoRows) {
        TwoRows<kCount, kReach>(a, lane, p);
      } else {
        Columns<kStride, kCount, kReach>(a, lane, p);
      }
    });
  };
  for (p.ow = 0; p.ow < w.out; p.ow += kCount) {
    const int64_t first = p.ow * kStride - w.pad;
    p.count = HWY_MIN(static_cast<int64_t>(kCount), w.out - p.ow);
    p.lo = HWY_MAX(-first, static_cast<int64_t>(0));
    p.hi = HWY_MIN(kInputs, w.in - first);
    if (p.count == kCount && p.lo <= 1 && p.hi >= kInputs - 1) {
      block(std::integral_constant<Reach, Reach::kAlmost>());
    } else {
      block(std::integral_constant<Reach, Reach::kPartial>());
    }
  }
}

// An output column that reads past an end of the row: the taps that lie inside.
HWY_INLINE void EdgeColumn(const DepthwiseLastArgs& a, const Lane& lane, const Place& p,
                           int64_t kw_begin, int64_t kw_end) {
  const ConvAxis& w = a.axes->columns;
  V sum = a.bias != nullptr ? lane.Load(a.bias + lane.c) : hn::Zero(D());
  for (int64_t kh = p.kh_begin; kh < p.kh_end && kw_begin < kw_end; ++kh) {
    const float* x = InputAt(a, lane, p.oh, p.ow, kh, kw_begin);
    const float* weights = a.weights + (kh * w.kernel + kw_begin) * a.channels + lane.c;
    for (int64_t kw = kw_begin; kw < kw_end; ++kw) {
      sum = hn::MulAdd(lane.Load(weights), lane.Load(x), sum);
      x += w.dilation * a.channels;
      weights += a.channels;
    }
  }
  StoreOne(a, lane, sum, (p.oh * w.out + p.ow) * a.channels + lane.c);
}

// Output columns whose windows lie inside the row.
HWY_INLINE void Inside(const ConvAxis& w, int64_t& begin, int64_t& end) {
  begin = w.pad <= 0 ? 0 : HWY_MIN((w.pad + w.stride - 1) / w.stride, w.out);
  const int64_t room = w.in + w.pad - (w.kernel - 1) * w.dilation - 1;
  end = room < 0 ? begin : HWY_MAX(HWY_MIN(room / w.stride + 1, w.out), begin);
}

// One row of outputs of any kernel.
HWY_INLINE void RowOfAny(const DepthwiseLastArgs& a, Place p) {
  const ConvAxis& w = a.axes->columns;
  int64_t begin, end;
  Inside(w, begin, end);
  const auto edges = [&](int64_t from, int64_t to) HWY_ATTR {
    for (p.ow = from; p.ow < to; ++p.ow) {
      int64_t kw_begin, kw_end;
      Clip(w, p.ow, kw_begin, kw_end);
      ForEachLane(p.c_begin, p.c_end,
                  [&](const Lane& lane) HWY_ATTR { EdgeColumn(a, lane, p, kw_begin, kw_end); });
    }
  };
  edges(0, begin);
#define PX_BLOCK(COUNT)                                                                           \
  ForEachLane(p.c_begin, p.c_end,                                                                 \
              [&](const Lane& lane) HWY_ATTR { Columns<0, COUNT, Reach::kInside>(a, lane, p); }); \
  p.ow += COUNT;
  p.ow = begin;
  while (p.ow + 8 <= end) {
    PX_BLOCK(8)
  }
  if (p.ow + 4 <= end) {
    PX_BLOCK(4)
  }
  if (p.ow + 2 <= end) {
    PX_BLOCK(2)
  }
  if (p.ow < end) {
    PX_BLOCK(1)
  }
#undef PX_BLOCK
  edges(end, w.out);
}

// The channels [c_begin, c_end) of all rows.
template <int kStride>
HWY_INLINE void ChannelsOfRows(const DepthwiseLastArgs& a, int64_t c_begin, int64_t c_end) {
  const ConvAxis& h = a.axes->rows;
  for (int64_t oh = a.row; oh < a.row + a.rows; ++oh) {
    Place p;
    p.oh = oh;
    p.c_begin = c_begin;
    p.c_end = c_end;
    Clip(h, oh, p.kh_begin, p.kh_end);
    if (a.axes->columns.in == 0) p.kh_end = p.kh_begin;  // nothing to point to
    if constexpr (kStride == 1) {
      const int64_t first = oh * h.stride - h.pad;
      const bool three = h.kernel == 3 && h.dilation == 1 && h.stride == 1;
      const bool reads = p.kh_begin < p.kh_end;
      if (three && reads && oh + 1 < a.row + a.rows && first >= 0 && first + 4 <= h.in) {
        RowOf3<1, true>(a, p);
        ++oh;
        continue;
      }
    }
    if constexpr (kStride > 0) {
      RowOf3<kStride, false>(a, p);
    } else {
      RowOfAny(a, p);
    }
  }
}

// Where there are many channels, a cache line of them at a time: the inputs of a few rows then stay in
// L1 until the last row that reads them, and come from L2 once. Where there are few, or rows are
// too long for that, all at a time: memory is then read in order.
template <int kStride>
void DepthwiseRowsBy(const DepthwiseLastArgs& args) {
  const DepthwiseLastArgs a = args;
  const ConvAxis &h = a.axes->rows, &w = a.axes->columns;
  const int64_t rows = (h.kernel - 1) * h.dilation + 2;
  const bool stay = rows * w.in * kLineChannels * static_cast<int64_t>(sizeof(float)) <= kL1Bytes;
  const int64_t step = stay && a.channels >= kManyChannels ? kLineChannels : a.channels;
  for (int64_t c = 0; c < a.channels; c += step) {
    ChannelsOfRows<kStride>(a, c, HWY_MIN(c + step, a.channels));
  }
}

void DepthwiseRows(const DepthwiseLastArgs& a) {
  const ConvAxis& w = a.axes->columns;
  const bool three = w.kernel == 3 && w.dilation == 1;
  if (three && w.stride == 1) return DepthwiseRowsBy<1>(a);
  if (three && w.stride == 2) return DepthwiseRowsBy<2>(a);
  DepthwiseRowsBy<0>(a);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(DepthwiseRows);

// As in gemm.cc: a task of fewer multiply-adds is not worth a thread.
constexpr double kMinTaskMacs = 1 << 16;
constexpr int64_t kMaxTasks = 64;
// Rows that neighbouring tasks both read should be few beside their own.
constexpr int64_t kMinRows = 7;

}  // namespace

void PlanDepthwiseLast(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const double macs = static_cast<double>(s.batch * s.OutSize() * s.out_channels * s.KernelSize());
  const auto tasks = std::clamp<int64_t>(static_cast<int64_t>(macs / kMinTaskMacs), 1, kMaxTasks);
  plan.rows_per_task = std::clamp<int64_t>(s.batch * axes.rows.out / tasks,
                                           std::min(kMinRows, axes.rows.out), axes.rows.out);
  plan.rows_per_task = CeilDiv(axes.rows.out, CeilDiv(axes.rows.out, plan.rows_per_task));
  plan.packed_weight_bytes = static_cast<size_t>(RoundUp(s.out_channels * s.KernelSize() * 4, 64));
}

void PackDepthwiseLast(const ConvPlan& plan, const void* weights, float* packed) {
  const int64_t channels = plan.shape.out_channels, taps = plan.shape.KernelSize();
  const auto* bytes = static_cast<const std::byte*>(weights);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      std::memcpy(packed + t * channels + c, bytes + (c * taps + t) * 4, 4);
    }
  }
}

void RunDepthwiseLastRows(const ConvPlan& plan, const ConvAxes& axes, const ConvArgs& args,
                          int64_t row, int64_t rows) {
  DepthwiseLastArgs a;
  a.axes = &axes;
  a.channels = plan.shape.in_channels;
  a.row = row;
  a.rows = rows;
  a.input = args.input;
  a.weights = args.packed;
  a.bias = args.bias;
  a.residual = args.epilogue.first_residual();
  a.output = args.output;
  a.clamp = args.clamps();
  a.lo = args.lo();
  a.hi = args.hi();
  HWY_DYNAMIC_DISPATCH(DepthwiseRows)(a);
  const int64_t row_floats = axes.columns.out * a.channels, at = row * row_floats;
  FinishBlock(args.epilogue, args.output + at,
              args.epilogue.residual != nullptr ? args.epilogue.residual + at : nullptr, rows,
              row_floats, row_floats);
}

void RunDepthwiseLast(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const int64_t blocks = CeilDiv(axes.rows.out, plan.rows_per_task);
  const int64_t in_size = s.InSize() * s.in_channels, out_size = s.OutSize() * s.out_channels;
  team.Run(s.batch * blocks, [&](int64_t task, int) {
    const int64_t image = task / blocks;
    ConvArgs a = args;
    a.input += image * in_size;
    a.output += image * out_size;
    if (a.epilogue.residual != nullptr) a.epilogue.residual += image * out_size;
    const int64_t row = task % blocks * plan.rows_per_task;
    RunDepthwiseLastRows(plan, axes, a, row, std::min(plan.rows_per_task, axes.rows.out - row));
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
