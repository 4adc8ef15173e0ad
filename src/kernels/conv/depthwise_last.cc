// Depthwise convolution, channels last: one output channel an input channel, vectors over channels.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/conv/depthwise_block.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise_last.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/conv/depthwise_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kManyChannels = 64;
constexpr int64_t kL1Bytes = 32 << 10;

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
  for (; c + lanes <= channels; c += lanes) f(Lane<true>{c, static_cast<size_t>(lanes)});
  if (c < channels) f(Lane<false>{c, static_cast<size_t>(channels - c)});
}

// One row of outputs, or two.
template <int kTaps, int kStride, bool kTwoRows>
HWY_INLINE void RowOfTaps(const DepthwiseLastArgs& a, Place p) {
  constexpr int kCount = kTwoRows && !kManyRegisters ? 4 : 8;  // more than the latency of the FMA
  constexpr int64_t kInputs = (kCount - 1) * kStride + kTaps;
  const ConvAxis& w = a.axes->columns;
  const auto block = [&](auto reach) HWY_ATTR {
    constexpr Reach kReach = decltype(reach)::value;
    ForEachLane(p.c_begin, p.c_end, [&](const auto& lane) HWY_ATTR {
      if constexpr (kTwoRows) {
        TwoRows<kCount, kReach>(a, lane, p);
      } else {
        Columns<kTaps, kStride, kCount, kReach>(a, lane, p);
      }
    });
  };
  for (p.ow = 0; p.ow < w.out; p.ow += kCount) {
    const int64_t first = p.ow * kStride - w.pad;
    p.count = HWY_MIN(static_cast<int64_t>(kCount), w.out - p.ow);
    p.lo = HWY_MAX(-first, static_cast<int64_t>(0));
    p.hi = HWY_MIN(kInputs, w.in - first);
    if (p.count == kCount && p.lo == 0 && p.hi == kInputs) {
      block(std::integral_constant<Reach, Reach::kInside>());
    } else if (p.count == kCount && p.lo <= 1 && p.hi >= kInputs - 1) {
      block(std::integral_constant<Reach, Reach::kAlmost>());
    } else {
      block(std::integral_constant<Reach, Reach::kPartial>());
    }
  }
}

// An output column that reads past an end of the row: the taps that lie inside.
template <class L>
HWY_INLINE void EdgeColumn(const DepthwiseLastArgs& a, const L& lane, const Place& p,
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
                  [&](const auto& lane) HWY_ATTR { EdgeColumn(a, lane, p, kw_begin, kw_end); });
    }
  };
  edges(0, begin);
#define PX_BLOCK(COUNT)                                            \
  ForEachLane(p.c_begin, p.c_end, [&](const auto& lane) HWY_ATTR { \
    Columns<0, 0, COUNT, Reach::kInside>(a, lane, p);              \
  });                                                              \
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
template <int kTaps, int kStride>
HWY_INLINE void ChannelsOfRows(const DepthwiseLastArgs& a, int64_t c_begin, int64_t c_end) {
  const ConvAxis& h = a.axes->rows;
  const int64_t end = a.part.row + a.part.rows;
  for (int64_t oh = a.part.row; oh < end; ++oh) {
    Place p;
    p.oh = oh;
    p.c_begin = c_begin;
    p.c_end = c_end;
    Clip(h, oh, p.kh_begin, p.kh_end);
    if (a.axes->columns.in == 0) p.kh_end = p.kh_begin;  // nothing to point to
    if constexpr (kTaps == 3 && kStride == 1) {
      const int64_t first = oh * h.stride - h.pad;
      const bool three = h.kernel == 3 && h.dilation == 1 && h.stride == 1;
      const bool reads = p.kh_begin < p.kh_end;
      if (three && reads && oh + 1 < end && first >= 0 && first + 4 <= h.in) {
        RowOfTaps<3, 1, true>(a, p);
        ++oh;
        continue;
      }
    }
    if constexpr (kTaps > 0) {
      RowOfTaps<kTaps, kStride, false>(a, p);
    } else {
      RowOfAny(a, p);
    }
  }
}

// Where there are many channels, a cache line of them at a time: the inputs of a few rows then stay in
// L1 until the last row that reads them, and come from L2 once. Where there are few, or rows are
// too long for that, all at a time: memory is then read in order.
template <int kTaps, int kStride>
void DepthwiseRowsBy(const DepthwiseLastArgs& args) {
  const DepthwiseLastArgs a = args;
  const ConvAxis &h = a.axes->rows, &w = a.axes->columns;
  const int64_t rows = (h.kernel - 1) * h.dilation + 2;
  const bool stay = rows * w.in * kLineChannels * static_cast<int64_t>(sizeof(float)) <= kL1Bytes;
  const int64_t step = stay && a.channels >= kManyChannels ? kLineChannels : a.channels;
  const int64_t end = a.part.channel + a.part.channels;
  for (int64_t c = a.part.channel; c < end; c += step) {
    ChannelsOfRows<kTaps, kStride>(a, c, HWY_MIN(c + step, end));
  }
}

void DepthwiseRows(const DepthwiseLastArgs& a) {
  const ConvAxis& w = a.axes->columns;
  if (w.dilation == 1 && w.kernel == 3 && w.stride == 1) return DepthwiseRowsBy<3, 1>(a);
  if (w.dilation == 1 && w.kernel == 3 && w.stride == 2) return DepthwiseRowsBy<3, 2>(a);
  if (w.dilation == 1 && w.kernel == 5 && w.stride == 1) return DepthwiseRowsBy<5, 1>(a);
  DepthwiseRowsBy<0, 0>(a);
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
constexpr int64_t kMinChannels = 64;

}  // namespace

void PlanDepthwiseLast(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const double macs = static_cast<double>(s.batch * s.OutSize() * s.out_channels * s.KernelSize());
  const auto tasks = std::clamp<int64_t>(static_cast<int64_t>(macs / kMinTaskMacs), 1, kMaxTasks);
  plan.rows_per_task = std::clamp<int64_t>(s.batch * axes.rows.out / tasks,
                                           std::min(kMinRows, axes.rows.out), axes.rows.out);
  const int64_t blocks = CeilDiv(axes.rows.out, plan.rows_per_task);
  plan.rows_per_task = CeilDiv(axes.rows.out, blocks);
  // Pictures too small to be cut, which have many channels.
  const int64_t parts = std::clamp<int64_t>(tasks / (s.batch * blocks), 1,
                                            std::max<int64_t>(1, s.out_channels / kMinChannels));
  plan.channels_per_task = RoundUp(CeilDiv(s.out_channels, parts), kLineChannels);
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

void RunDepthwiseLastPart(const ConvPlan& plan, const ConvAxes& axes, const ConvArgs& args,
                          const DepthwisePart& part, const RowRing& ring) {
  DepthwiseLastArgs a;
  a.axes = &axes;
  a.channels = plan.shape.in_channels;
  a.part = part;
  a.ring = ring;
  a.input = args.input;
  a.weights = args.packed;
  a.bias = args.bias;
  a.residual = args.epilogue.first_residual();
  a.output = args.output;
  a.lo = args.lo();
  a.hi = args.hi();
  HWY_DYNAMIC_DISPATCH(DepthwiseRows)(a);
  const int64_t at = part.row * axes.columns.out * a.channels + part.channel;
  FinishBlock(args.epilogue, args.output + at,
              args.epilogue.residual != nullptr ? args.epilogue.residual + at : nullptr,
              part.rows * axes.columns.out, part.channels, a.channels);
}

void RunDepthwiseLast(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const int64_t blocks = CeilDiv(axes.rows.out, plan.rows_per_task);
  const int64_t channel_blocks = CeilDiv(s.out_channels, plan.channels_per_task);
  const int64_t in_size = s.InSize() * s.in_channels, out_size = s.OutSize() * s.out_channels;
  team.Run(s.batch * blocks * channel_blocks, [&](int64_t task, int) {
    const int64_t image = task / (blocks * channel_blocks);
    ConvArgs a = args;
    a.input += image * in_size;
    a.output += image * out_size;
    if (a.epilogue.residual != nullptr) a.epilogue.residual += image * out_size;
    DepthwisePart part;
    part.row = task / channel_blocks % blocks * plan.rows_per_task;
    part.rows = std::min(plan.rows_per_task, axes.rows.out - part.row);
    part.channel = task % channel_blocks * plan.channels_per_task;
    part.channels = std::min(plan.channels_per_task, s.out_channels - part.channel);
    RunDepthwiseLastPart(plan, axes, a, part, {.rows = axes.rows.in});
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
