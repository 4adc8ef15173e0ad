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

#include "kernels/elementwise/tail-inl.h"

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

// One vector of channels from c on, n of them, at `count` neighbouring output columns from ow on,
// all of whose taps [kw_begin, kw_end) lie in the input. kCount is 1 or kColumns.
template <int kCount>
HWY_INLINE void Columns(const DepthwiseLastArgs& a, int64_t c, size_t n, bool whole, int64_t oh,
                        int64_t kh_begin, int64_t kh_end, int64_t ow, int64_t kw_begin,
                        int64_t kw_end) {
  const D d;
  const ConvAxis &h = a.axes->rows, &w = a.axes->columns;
  const auto load = [&](const float* p) HWY_ATTR {
    return HWY_LIKELY(whole) ? hn::LoadU(d, p) : LoadTail(d, p, n);
  };
  V s0 = a.bias != nullptr ? load(a.bias + c) : hn::Zero(d);
  V s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const int64_t step = w.stride * a.channels;
  for (int64_t kh = kh_begin; kh < kh_end; ++kh) {
    const int64_t ih = oh * h.stride + kh * h.dilation - h.pad;
    const float* row = a.input + ih * w.in * a.channels + c;
    const float* weights = a.weights + kh * w.kernel * a.channels + c;
    for (int64_t kw = kw_begin; kw < kw_end; ++kw) {
      const V k = load(weights + kw * a.channels);
      const float* x = row + (ow * w.stride + kw * w.dilation - w.pad) * a.channels;
      s0 = hn::MulAdd(k, load(x), s0);
      if constexpr (kCount > 1) {
        s1 = hn::MulAdd(k, load(x + step), s1);
        s2 = hn::MulAdd(k, load(x + 2 * step), s2);
        s3 = hn::MulAdd(k, load(x + 3 * step), s3);
        s4 = hn::MulAdd(k, load(x + 4 * step), s4);
        s5 = hn::MulAdd(k, load(x + 5 * step), s5);
        s6 = hn::MulAdd(k, load(x + 6 * step), s6);
        s7 = hn::MulAdd(k, load(x + 7 * step), s7);
      }
    }
  }
  const V lo = hn::Set(d, a.lo), hi = hn::Set(d, a.hi);
  int64_t at = (oh * w.out + ow) * a.channels + c;
  const auto store = [&](V y) HWY_ATTR {
    if (a.residual != nullptr) y = hn::Add(y, load(a.residual + at));
    if (a.clamp) {
      y = hn::IfThenElse(hn::Lt(y, lo), lo, y);
      y = hn::IfThenElse(hn::Gt(y, hi), hi, y);
    }
    if (HWY_LIKELY(whole)) {
      hn::StoreU(y, d, a.output + at);
    } else {
      StoreTail(y, d, a.output + at, n);
    }
    at += a.channels;
  };
  store(s0);
  if constexpr (kCount > 1) {
    store(s1);
    store(s2);
    store(s3);
    store(s4);
    store(s5);
    store(s6);
    store(s7);
  }
}

// Taps [begin, end) of an axis that lie in the input for output `at`.
HWY_INLINE void Clip(const ConvAxis& axis, int64_t at, int64_t& begin, int64_t& end) {
  const int64_t origin = at * axis.stride - axis.pad;
  begin = origin >= 0 ? 0 : HWY_MIN((-origin + axis.dilation - 1) / axis.dilation, axis.kernel);
  const int64_t room = axis.in - origin;
  end = room <= 0 ? 0 : HWY_MIN((room + axis.dilation - 1) / axis.dilation, axis.kernel);
  end = HWY_MAX(end, begin);
}

void DepthwiseRows(const DepthwiseLastArgs& a) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const ConvAxis& w = a.axes->columns;
  for (int64_t c = 0; c < a.channels; c += lanes) {
    const bool whole = c + lanes <= a.channels;
    const size_t n = static_cast<size_t>(HWY_MIN(lanes, a.channels - c));
    for (int64_t oh = a.row; oh < a.row + a.rows; ++oh) {
      int64_t kh_begin, kh_end;
      Clip(a.axes->rows, oh, kh_begin, kh_end);
      for (int64_t ow = 0; ow < w.out;) {
        int64_t begin, end, begin_last = 0, end_last = 0;
        Clip(w, ow, begin, end);
        const bool many = ow + kColumns <= w.out;
        if (many) Clip(w, ow + kColumns - 1, begin_last, end_last);
        if (many && begin == 0 && end == w.kernel && end_last == w.kernel) {
          Columns<kColumns>(a, c, n, whole, oh, kh_begin, kh_end, ow, 0, w.kernel);
          ow += kColumns;
        } else {
          Columns<1>(a, c, n, whole, oh, kh_begin, kh_end, ow, begin, end);
          ++ow;
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(DepthwiseRows);

// One vector of channels of the rows a block reads stays in L1 while the block is done.
constexpr int64_t kBlockBytes = 24 << 10;
constexpr double kMinTaskMacs = 1 << 16;

}  // namespace

void PlanDepthwiseLast(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const int64_t row_bytes = axes.columns.in * 64;
  const int64_t fits =
      (kBlockBytes / std::max<int64_t>(row_bytes, 1) - axes.rows.kernel) / axes.rows.stride;
  const double row_macs = static_cast<double>(axes.columns.out * s.out_channels * s.KernelSize());
  const auto least =
      static_cast<int64_t>(kMinTaskMacs / std::max(row_macs, 1.0)) + 1;  // rows worth a task
  plan.rows_per_task = std::clamp<int64_t>(std::max(fits, least), 1, axes.rows.out);
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
