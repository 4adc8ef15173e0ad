#include <algorithm>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/conv/depthwise_direct.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/clamp-inl.h"

#ifndef PARALLAX_KERNELS_CONV_DEPTHWISE_CC_
#define PARALLAX_KERNELS_CONV_DEPTHWISE_CC_
namespace parallax::kernels {
namespace {

// One channel of one block.
struct DepthwiseArgs {
  const PatchLayout* layout = nullptr;
  PatchBlock block;
  const int64_t* tap_offsets = nullptr;
  const float* weights = nullptr;  // taps
  const float* patch = nullptr;
  float* line = nullptr;  // scratch for all positions, rounded up to whole vectors
  float bias = 0.0f;
  bool clamp = false;
  float lo = 0.0f, hi = 0.0f;
  const float* residual = nullptr;  // at the block's first element, like out
  float* out = nullptr;
};

}  // namespace
}  // namespace parallax::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

// to[i] = act(from[i] + residual[i]), i < n.
HWY_INLINE void FinishRow(const DepthwiseArgs& a, const float* from, const float* residual,
                          int64_t n, float* to) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto x = hn::LoadU(d, from + i);
    if (residual != nullptr) x = hn::Add(x, hn::LoadU(d, residual + i));
    if (a.clamp) x = Clamp(d, x, hn::Set(d, a.lo), hn::Set(d, a.hi));
    hn::StoreU(x, d, to + i);
  }
  for (; i < n; ++i) {
    float x = from[i];
    if (residual != nullptr) x += residual[i];
    if (a.clamp) {
      x = x < a.lo ? a.lo : x;
      x = x > a.hi ? a.hi : x;
    }
    to[i] = x;
  }
}

// kVectors vectors of positions from p on: bias + sum over taps, to `to`.
template <int kVectors>
HWY_INLINE void SumTaps(const DepthwiseArgs& a, int64_t taps, int64_t p, float* to) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Set(d, a.bias), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t t = 0; t < taps; ++t) {
    const float* from = a.patch + a.tap_offsets[t] + p;
    const auto w = hn::Set(d, a.weights[t]);
    s0 = hn::MulAdd(w, hn::LoadU(d, from), s0);
    if (kVectors > 1) s1 = hn::MulAdd(w, hn::LoadU(d, from + lanes), s1);
    if (kVectors > 2) s2 = hn::MulAdd(w, hn::LoadU(d, from + 2 * lanes), s2);
    if (kVectors > 3) s3 = hn::MulAdd(w, hn::LoadU(d, from + 3 * lanes), s3);
  }
  hn::StoreU(s0, d, to);
  if (kVectors > 1) hn::StoreU(s1, d, to + lanes);
  if (kVectors > 2) hn::StoreU(s2, d, to + 2 * lanes);
  if (kVectors > 3) hn::StoreU(s3, d, to + 3 * lanes);
}

// All positions as one line, then row by row to the output: rows end anywhere in a vector, and no
// vector is spent on the rest of a row.
void DepthwiseBlock(const DepthwiseArgs& a) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  const PatchLayout& l = *a.layout;
  const int64_t taps = l.taps();
  const int64_t positions = l.Positions(a.block.rows, a.block.columns);
  int64_t p = 0;
  for (; p + 3 * lanes < positions; p += 4 * lanes) SumTaps<4>(a, taps, p, a.line + p);
  for (; p < positions; p += lanes) SumTaps<1>(a, taps, p, a.line + p);
  const int64_t width = l.axes.columns.out;
  for (int64_t r = 0; r < a.block.rows; ++r) {
    FinishRow(a, a.line + r * l.pitch, a.residual != nullptr ? a.residual + r * width : nullptr,
              a.block.columns, a.out + r * width);
  }
}

int64_t LanesImpl() { return static_cast<int64_t>(hn::Lanes(D())); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(DepthwiseBlock);
HWY_EXPORT(LanesImpl);

// The patch and the line of sums share L1.
constexpr int64_t kPatchBytes = 20 << 10;
constexpr int64_t kMaxColumns = 1024;
constexpr double kMinTaskMacs = 1 << 16;

// Whole vectors past the end are read from the patch and written to the line: 4 at most.
int64_t Slack() { return 4 * HWY_DYNAMIC_DISPATCH(LanesImpl)(); }

int64_t LineFloats(const PatchLayout& layout) {
  return RoundUp(layout.Positions(layout.block_rows, layout.block_columns) + Slack(), 16);
}

}  // namespace

void PlanDepthwise(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  plan.columns_per_task = CeilDiv(axes.columns.out, CeilDiv(axes.columns.out, kMaxColumns));
  int64_t rows = axes.rows.out;
  while (rows > 1 &&
         PatchLayout(axes, rows, plan.columns_per_task).channel_size * 4 > kPatchBytes) {
    rows = CeilDiv(rows, 2);
  }
  plan.rows_per_task = rows;
  const double macs = static_cast<double>(rows * plan.columns_per_task * s.KernelSize());
  plan.channels_per_task = std::clamp<int64_t>(
      static_cast<int64_t>(kMinTaskMacs / std::max(macs, 1.0)), 1, s.out_channels);
  const PatchLayout layout(axes, plan.rows_per_task, plan.columns_per_task);
  plan.worker_bytes =
      static_cast<size_t>(RoundUp((layout.channel_size + Slack() + LineFloats(layout)) * 4, 64));
  plan.packed_weight_bytes = static_cast<size_t>(RoundUp(s.out_channels * s.KernelSize() * 4, 64));
}

void RunDepthwise(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  const PatchLayout layout(MakeAxes(s), plan.rows_per_task, plan.columns_per_task);
  const ConvAxes& axes = layout.axes;
  int64_t tap_offsets[kMaxTaps];
  layout.TapOffsets(tap_offsets);
  const int64_t in_size = s.InSize(), out_size = s.OutSize(), taps = layout.taps();
  const int64_t multiplier = s.out_channels / s.groups;
  const int64_t row_tasks = CeilDiv(axes.rows.out, plan.rows_per_task);
  const int64_t column_tasks = CeilDiv(axes.columns.out, plan.columns_per_task);
  const int64_t channel_tasks = CeilDiv(s.out_channels, plan.channels_per_task);
  // The planes at either end of the input are left to patches: nothing past it may be read.
  const bool direct = column_tasks == 1 && HasDirectPlane(axes);
  const PlaneReach reach = DirectPlaneReach(axes);

  team.Run(s.batch * channel_tasks * row_tasks * column_tasks, [&](int64_t task, int worker) {
    DepthwiseArgs a;
    a.layout = &layout;
    a.tap_offsets = tap_offsets;
    a.clamp = args.clamps();
    a.lo = args.lo();
    a.hi = args.hi();
    a.block.column = task % column_tasks * plan.columns_per_task;
    a.block.columns = std::min(plan.columns_per_task, axes.columns.out - a.block.column);
    a.block.row = task / column_tasks % row_tasks * plan.rows_per_task;
    a.block.rows = std::min(plan.rows_per_task, axes.rows.out - a.block.row);
    const int64_t channels = task / (column_tasks * row_tasks);
    const int64_t image = channels / channel_tasks;
    const int64_t first = channels % channel_tasks * plan.channels_per_task;
    const int64_t last = std::min(first + plan.channels_per_task, s.out_channels);
    auto* patch =
        reinterpret_cast<float*>(args.workspace + plan.worker_bytes * static_cast<size_t>(worker));
    a.patch = patch;
    a.line = patch + layout.channel_size + Slack();
    int64_t copied = -1;
    for (int64_t oc = first; oc < last; ++oc) {
      const int64_t ic = image * s.in_channels + oc / multiplier;
      const int64_t at = (image * s.out_channels + oc) * out_size + a.block.row * axes.columns.out +
                         a.block.column;
      a.weights = args.packed + oc * taps;
      a.bias = args.bias != nullptr ? args.bias[oc] : 0.0f;
      a.residual = args.epilogue.residual != nullptr ? args.epilogue.residual + at : nullptr;
      a.out = args.output + at;
      if (direct && ic * in_size >= reach.before &&
          ic * in_size + reach.after <= s.batch * s.in_channels * in_size) {
        DirectPlane(axes, {.plane = args.input + ic * in_size,
                           .in_rows = axes.rows.in,
                           .in_columns = axes.columns.in,
                           .pad_row = axes.rows.pad,
                           .pad_column = axes.columns.pad,
                           .out_columns = axes.columns.out,
                           .row = a.block.row,
                           .rows = a.block.rows,
                           .weights = a.weights,
                           .bias = a.bias,
                           .clamp = a.clamp,
                           .lo = a.lo,
                           .hi = a.hi,
                           .residual = a.residual,
                           .out = a.out});
        continue;
      }
      if (ic != copied) {
        CopyPatches(layout, a.block, args.input + ic * in_size, 1, in_size, 0.0f, patch);
        copied = ic;
      }
      HWY_DYNAMIC_DISPATCH(DepthwiseBlock)(a);
    }
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
