// Depthwise convolution, channels last: one output channel an input channel, vectors over channels.
#include <algorithm>
#include <cstring>

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

constexpr int64_t kColumns = 8;  // sums at once: more than the latency of the FMA needs

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

// Inputs of one row, column by column from `column` on; zeros outside the row where kChecked.
template <bool kChecked>
struct RowReader {
  const float* at;  // of `column`, at the lane's channels
  int64_t step;     // floats to the next column that is wanted
  int64_t column, columns, stride;
  HWY_INLINE V Next(const Lane& lane) {
    const float* from = at;
    at += step;
    if constexpr (kChecked) {
      const bool inside = column >= 0 && column < columns;
      column += stride;
      if (!inside) return hn::Zero(D());
    }
    return lane.Load(from);
  }
};

// One row of a kernel of three taps against eight outputs: every input is loaded once.
template <int kStride, bool kChecked>
HWY_INLINE void AddRow3(const Lane& lane, RowReader<kChecked> x, V w0, V w1, V w2, V& s0, V& s1,
                        V& s2, V& s3, V& s4, V& s5, V& s6, V& s7) {
  const auto next = [&]() HWY_ATTR { return x.Next(lane); };
  // The taps in ascending order for each sum, as everywhere.
#define PX_COLUMN(prev2, prev1, s)                                 \
  {                                                                \
    const V in = next();                                           \
    prev2 = hn::MulAdd(w2, in, prev2);                             \
    if constexpr (kStride == 1) prev1 = hn::MulAdd(w1, in, prev1); \
    s = hn::MulAdd(w0, in, s);                                     \
    if constexpr (kStride == 2) s = hn::MulAdd(w1, next(), s);     \
  }
  if constexpr (kStride == 1) {
    V v = next();
    s0 = hn::MulAdd(w0, v, s0);
    v = next();
    s0 = hn::MulAdd(w1, v, s0);
    s1 = hn::MulAdd(w0, v, s1);
    PX_COLUMN(s0, s1, s2)
    PX_COLUMN(s1, s2, s3)
    PX_COLUMN(s2, s3, s4)
    PX_COLUMN(s3, s4, s5)
    PX_COLUMN(s4, s5, s6)
    PX_COLUMN(s5, s6, s7)
    v = next();
    s6 = hn::MulAdd(w2, v, s6);
    s7 = hn::MulAdd(w1, v, s7);
    s7 = hn::MulAdd(w2, next(), s7);
  } else {
    s0 = hn::MulAdd(w0, next(), s0);
    s0 = hn::MulAdd(w1, next(), s0);
    PX_COLUMN(s0, s0, s1)
    PX_COLUMN(s1, s1, s2)
    PX_COLUMN(s2, s2, s3)
    PX_COLUMN(s3, s3, s4)
    PX_COLUMN(s4, s4, s5)
    PX_COLUMN(s5, s5, s6)
    PX_COLUMN(s6, s6, s7)
    s7 = hn::MulAdd(w2, next(), s7);
  }
#undef PX_COLUMN
}

// Outputs [ow, ow + count), at most kColumns. Not kChecked: all of them are there and read inside the
// row. kStride 0: any kernel, stride and dilation; else three taps, not dilated, with that stride.
template <int kStride, bool kChecked>
HWY_INLINE void Columns(const DepthwiseLastArgs& a, const Lane& lane, int64_t oh, int64_t kh_begin,
                        int64_t kh_end, int64_t ow, int64_t count) {
  // By value: a store to the output could change what a pointer leads to.
  const ConvAxis h = a.axes->rows, w = a.axes->columns;
  const int64_t channels = a.channels;
  V s0 = a.bias != nullptr ? lane.Load(a.bias + lane.c) : hn::Zero(D());
  V s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const int64_t first = ow * w.stride - w.pad;
  const float* row = a.input;  // null where there is no input at all
  if (kh_begin < kh_end) {
    const int64_t ih = oh * h.stride + kh_begin * h.dilation - h.pad;
    row += (ih * w.in + first) * channels + lane.c;
  }
  const float* weights = a.weights + kh_begin * w.kernel * channels + lane.c;
  for (int64_t kh = kh_begin; kh < kh_end; ++kh, row += h.dilation * w.in * channels) {
    if constexpr (kStride > 0) {
      const RowReader<kChecked> x{row, channels, first, w.in, 1};
      AddRow3<kStride>(lane, x, lane.Load(weights), lane.Load(weights + channels),
                       lane.Load(weights + 2 * channels), s0, s1, s2, s3, s4, s5, s6, s7);
      weights += 3 * channels;
      continue;
    }
    for (int64_t kw = 0; kw < w.kernel; ++kw, weights += channels) {
      const V k = lane.Load(weights);
      const int64_t shift = kw * w.dilation;
      RowReader<kChecked> x{row + shift * channels, w.stride * channels, first + shift, w.in,
                            w.stride};
      s0 = hn::MulAdd(k, x.Next(lane), s0);
      s1 = hn::MulAdd(k, x.Next(lane), s1);
      s2 = hn::MulAdd(k, x.Next(lane), s2);
      s3 = hn::MulAdd(k, x.Next(lane), s3);
      s4 = hn::MulAdd(k, x.Next(lane), s4);
      s5 = hn::MulAdd(k, x.Next(lane), s5);
      s6 = hn::MulAdd(k, x.Next(lane), s6);
      s7 = hn::MulAdd(k, x.Next(lane), s7);
    }
  }
  const int64_t at = (oh * w.out + ow) * channels + lane.c;
#define PX_STORE(j) \
  if (!kChecked || j < count) StoreOne(a, lane, s##j, at + j * channels);
  PX_STORE(0) PX_STORE(1) PX_STORE(2) PX_STORE(3) PX_STORE(4) PX_STORE(5) PX_STORE(6) PX_STORE(7)
#undef PX_STORE
}

// Taps [begin, end) of an axis that lie in the input for output `at`.
HWY_INLINE void Clip(const ConvAxis& axis, int64_t at, int64_t& begin, int64_t& end) {
  const int64_t origin = at * axis.stride - axis.pad;
  begin = origin >= 0 ? 0 : HWY_MIN((-origin + axis.dilation - 1) / axis.dilation, axis.kernel);
  const int64_t room = axis.in - origin;
  end = room <= 0 ? 0 : HWY_MIN((room + axis.dilation - 1) / axis.dilation, axis.kernel);
  end = HWY_MAX(end, begin);
}

// Calls f(lane) for each vector of channels.
template <class F>
HWY_INLINE void ForEachLane(int64_t channels, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) f(Lane{c, static_cast<size_t>(lanes), true});
  if (c < channels) f(Lane{c, static_cast<size_t>(channels - c), false});
}

// Channels are the inner loop: the inputs of a few columns are streamed from memory in order, and
// stay in L1 for the columns after them.
template <int kStride>
void DepthwiseRowsBy(const DepthwiseLastArgs& args) {
  const DepthwiseLastArgs a = args;
  const ConvAxis& w = a.axes->columns;
  for (int64_t oh = a.row; oh < a.row + a.rows; ++oh) {
    int64_t kh_begin, kh_end;
    Clip(a.axes->rows, oh, kh_begin, kh_end);
    if (w.in == 0) kh_end = kh_begin;  // rows without elements: there is nothing to point to
    for (int64_t ow = 0; ow < w.out; ow += kColumns) {
      const int64_t count = HWY_MIN(kColumns, w.out - ow);
      const int64_t first = ow * w.stride - w.pad;
      const int64_t last = first + (kColumns - 1) * w.stride + (w.kernel - 1) * w.dilation;
      if (count == kColumns && first >= 0 && last < w.in) {
        ForEachLane(a.channels, [&](const Lane& lane) HWY_ATTR {
          Columns<kStride, false>(a, lane, oh, kh_begin, kh_end, ow, count);
        });
      } else {
        ForEachLane(a.channels, [&](const Lane& lane) HWY_ATTR {
          Columns<kStride, true>(a, lane, oh, kh_begin, kh_end, ow, count);
        });
      }
    }
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

}  // namespace

void PlanDepthwiseLast(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const double macs = static_cast<double>(s.batch * s.OutSize() * s.out_channels * s.KernelSize());
  const auto tasks = std::clamp<int64_t>(static_cast<int64_t>(macs / kMinTaskMacs), 1, kMaxTasks);
  plan.rows_per_task = std::clamp<int64_t>(s.batch * axes.rows.out / tasks, 1, axes.rows.out);
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

void RunDepthwiseLast(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const int64_t blocks = CeilDiv(axes.rows.out, plan.rows_per_task);
  const int64_t in_size = s.InSize() * s.in_channels, out_size = s.OutSize() * s.out_channels;
  const float* residual = args.epilogue.first_residual();
  team.Run(s.batch * blocks, [&](int64_t task, int) {
    const int64_t image = task / blocks;
    DepthwiseLastArgs a;
    a.axes = &axes;
    a.channels = s.in_channels;
    a.row = task % blocks * plan.rows_per_task;
    a.rows = std::min(plan.rows_per_task, axes.rows.out - a.row);
    a.input = args.input + image * in_size;
    a.weights = args.packed;
    a.bias = args.bias;
    a.residual = residual != nullptr ? residual + image * out_size : nullptr;
    a.output = args.output + image * out_size;
    a.clamp = args.clamps();
    a.lo = args.lo();
    a.hi = args.hi();
    HWY_DYNAMIC_DISPATCH(DepthwiseRows)(a);
    const int64_t row_floats = axes.columns.out * s.out_channels;
    const int64_t at = image * out_size + a.row * row_floats;
    FinishBlock(args.epilogue, args.output + at,
                args.epilogue.residual != nullptr ? args.epilogue.residual + at : nullptr, a.rows,
                row_floats, row_floats);
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
