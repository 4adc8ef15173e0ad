#include "kernels/pool/window_pool.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "kernels/pool/generic_pool.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/window_pool.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/copy-inl.h"

#ifndef PARALLAX_KERNELS_POOL_WINDOW_POOL_CC_
#define PARALLAX_KERNELS_POOL_WINDOW_POOL_CC_
namespace parallax::kernels {
namespace {

// One plane of one block.
struct WindowArgs {
  const PatchLayout* layout = nullptr;
  PatchBlock block;
  const int64_t* tap_offsets = nullptr;
  const float* patch = nullptr;
  float* line = nullptr;  // scratch for all positions, rounded up to whole vectors
  // Average: elements to divide by are row_counts[row] * column_counts[column].
  const float* row_counts = nullptr;
  const float* column_counts = nullptr;
  int64_t power = 0;  // Lp: 1 or 2
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
using V = hn::Vec<D>;

struct MaxOf {
  // A NaN wins and stays: it is never below, and nothing is above it.
  HWY_INLINE V operator()(V best, V x) const {
    return hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
  }
};
struct SumOf {
  HWY_INLINE V operator()(V sum, V x) const { return hn::Add(sum, x); }
};
struct AbsSumOf {
  HWY_INLINE V operator()(V sum, V x) const { return hn::Add(sum, hn::Abs(x)); }
};
struct SquareSumOf {
  HWY_INLINE V operator()(V sum, V x) const { return hn::MulAdd(x, x, sum); }
};

// line[p] = the combination of all taps, for all positions of the block.
template <class Combine>
HWY_INLINE void CombineTaps(const WindowArgs& a, float start, const Combine combine) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t taps = a.layout->taps();
  const int64_t positions = a.layout->Positions(a.block.rows, a.block.columns);
  for (int64_t p = 0; p < positions; p += 2 * lanes) {
    V s0 = hn::Set(d, start), s1 = s0;
    for (int64_t t = 0; t < taps; ++t) {
      const float* from = a.patch + a.tap_offsets[t] + p;
      s0 = combine(s0, hn::LoadU(d, from));
      s1 = combine(s1, hn::LoadU(d, from + lanes));
    }
    hn::StoreU(s0, d, a.line + p);
    hn::StoreU(s1, d, a.line + p + lanes);
  }
}

void MaxBlock(const WindowArgs& a) {
  CombineTaps(a, -std::numeric_limits<float>::infinity(), MaxOf());
  const int64_t width = a.layout->axes.columns.out;
  for (int64_t r = 0; r < a.block.rows; ++r) {
    CopyFloats(a.line + r * a.layout->pitch, a.block.columns, a.out + r * width);
  }
}

void AverageBlock(const WindowArgs& a) {
  CombineTaps(a, 0.0f, SumOf());
  const int64_t width = a.layout->axes.columns.out;
  for (int64_t r = 0; r < a.block.rows; ++r) {
    const float* from = a.line + r * a.layout->pitch;
    const float row_count = a.row_counts[r];
    for (int64_t c = 0; c < a.block.columns; ++c) {
      const float count = row_count * a.column_counts[c];
      a.out[r * width + c] = count > 0.0f ? from[c] / count : 0.0f;
    }
  }
}

// The line in place becomes its root.
HWY_INLINE void RootLine(const WindowArgs& a) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t positions = a.layout->Positions(a.block.rows, a.block.columns);
  for (int64_t p = 0; p < positions; p += lanes) {
    hn::StoreU(hn::Sqrt(hn::LoadU(d, a.line + p)), d, a.line + p);
  }
}

void LpBlock(const WindowArgs& a) {
  if (a.power == 1) {
    CombineTaps(a, 0.0f, AbsSumOf());
  } else {
    CombineTaps(a, 0.0f, SquareSumOf());
    RootLine(a);
  }
  const int64_t width = a.layout->axes.columns.out;
  for (int64_t r = 0; r < a.block.rows; ++r) {
    CopyFloats(a.line + r * a.layout->pitch, a.block.columns, a.out + r * width);
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
HWY_EXPORT(MaxBlock);
HWY_EXPORT(AverageBlock);
HWY_EXPORT(LpBlock);
HWY_EXPORT(LanesImpl);

// Patch and line live on the worker's stack, together in L1.
constexpr int64_t kPatchFloats = 6144;
constexpr int64_t kLineFloats = 4096;
constexpr int64_t kMaxColumns = 512;
constexpr int64_t kMinTaskWork = 1 << 16;

ConvShape AsConv(const PoolShape& s) {
  ConvShape c{
      .batch = s.batch, .in_channels = s.channels, .out_channels = s.channels, .rank = s.rank};
  for (int i = 0; i < s.rank; ++i) {
    c.in[i] = s.in[i];
    c.out[i] = s.out[i];
    c.kernel[i] = s.kernel[i];
    c.strides[i] = s.strides[i];
    c.dilations[i] = s.dilations[i];
    c.pads_begin[i] = s.pads_begin[i];
  }
  return c;
}

// Vectors are read and written in pairs: up to two past the last position.
bool Fits(const PatchLayout& layout) {
  const int64_t slack = 2 * HWY_DYNAMIC_DISPATCH(LanesImpl)();
  return layout.channel_size + slack <= kPatchFloats &&
         layout.Positions(layout.block_rows, layout.block_columns) + slack <= kLineFloats;
}

// Kernel elements along one axis at output position `at` that count: those inside the input, or,
// with PadCount::kInclude, inside the padded input.
int64_t CountTaps(const ConvAxis& axis, int64_t pad_end, PadCount count, int64_t at) {
  const int64_t origin = at * axis.stride - axis.pad;
  if (count == PadCount::kExclude) {
    const internal::TapRange r = internal::ClipTaps(origin, axis.dilation, axis.kernel, axis.in);
    return r.end - r.begin;
  }
  const int64_t left = std::max<int64_t>(axis.in + pad_end - origin, 0);
  return std::min(axis.kernel, CeilDiv(left, axis.dilation));
}

// Calls run(args, plane) for every block of every plane, with its patch filled.
template <class Run>
void ForEachBlock(const PoolShape& s, const WindowPlan& plan, const float* input, float fill,
                  Team& team, Run run) {
  const ConvShape conv = AsConv(s);
  const PatchLayout layout(MakeAxes(conv), plan.rows_per_task, plan.columns_per_task);
  const ConvAxes& axes = layout.axes;
  int64_t tap_offsets[kMaxTaps];
  layout.TapOffsets(tap_offsets);
  const int64_t in_size = conv.InSize(), planes = s.batch * s.channels;
  const int64_t row_tasks = CeilDiv(axes.rows.out, plan.rows_per_task);
  const int64_t column_tasks = CeilDiv(axes.columns.out, plan.columns_per_task);
  const int64_t blocks = axes.depth.out * row_tasks * column_tasks;
  team.Run(blocks * CeilDiv(planes, plan.planes_per_task), [&](int64_t task, int) {
    alignas(64) float patch[kPatchFloats];
    alignas(64) float line[kLineFloats];
    WindowArgs a;
    a.layout = &layout;
    a.tap_offsets = tap_offsets;
    a.patch = patch;
    a.line = line;
    a.block.column = task % column_tasks * plan.columns_per_task;
    a.block.columns = std::min(plan.columns_per_task, axes.columns.out - a.block.column);
    a.block.row = task / column_tasks % row_tasks * plan.rows_per_task;
    a.block.rows = std::min(plan.rows_per_task, axes.rows.out - a.block.row);
    a.block.depth = task / (column_tasks * row_tasks) % axes.depth.out;
    const int64_t first = task / blocks * plan.planes_per_task;
    const int64_t last = std::min(first + plan.planes_per_task, planes);
    for (int64_t plane = first; plane < last; ++plane) {
      CopyPatches(layout, a.block, input + plane * in_size, 1, in_size, fill, patch);
      run(a, plane);
    }
  });
}

float* BlockOutput(const WindowArgs& a, float* output, int64_t plane) {
  const ConvAxes& axes = a.layout->axes;
  return output +
         ((plane * axes.depth.out + a.block.depth) * axes.rows.out + a.block.row) *
             axes.columns.out +
         a.block.column;
}

}  // namespace

WindowPlan PlanWindow(const PoolShape& s) {
  WindowPlan plan;
  const ConvShape conv = AsConv(s);
  if (s.rank > 3 || conv.KernelSize() > kMaxTaps || conv.OutSize() == 0) return plan;
  const ConvAxes axes = MakeAxes(conv);
  int64_t columns = CeilDiv(axes.columns.out, CeilDiv(axes.columns.out, kMaxColumns));
  while (columns > 8 && !Fits(PatchLayout(axes, 1, columns))) columns = CeilDiv(columns, 2);
  if (!Fits(PatchLayout(axes, 1, columns))) return plan;
  int64_t rows = axes.rows.out;
  while (rows > 1 && !Fits(PatchLayout(axes, rows, columns))) rows = CeilDiv(rows, 2);
  plan.supported = true;
  plan.columns_per_task = columns;
  plan.rows_per_task = rows;
  plan.planes_per_task = std::clamp<int64_t>(kMinTaskWork / (rows * columns * conv.KernelSize()), 1,
                                             std::max<int64_t>(1, s.batch * s.channels));
  return plan;
}

void WindowMax(const PoolShape& shape, const WindowPlan& plan, const float* input, float* output,
               Team& team) {
  ForEachBlock(shape, plan, input, -std::numeric_limits<float>::infinity(), team,
               [&](WindowArgs& a, int64_t plane) {
                 a.out = BlockOutput(a, output, plane);
                 HWY_DYNAMIC_DISPATCH(MaxBlock)(a);
               });
}

void WindowLp(const PoolShape& shape, const WindowPlan& plan, const float* input, float* output,
              int64_t p, Team& team) {
  ForEachBlock(shape, plan, input, 0.0f, team, [&](WindowArgs& a, int64_t plane) {
    a.power = p;
    a.out = BlockOutput(a, output, plane);
    HWY_DYNAMIC_DISPATCH(LpBlock)(a);
  });
}

void WindowAverage(const PoolShape& shape, const WindowPlan& plan, const float* input,
                   float* output, PadCount count, Team& team) {
  const int last = shape.rank - 1;
  const auto pad_end = [&](int i) { return i < 0 ? 0 : shape.pads_end[i]; };
  ForEachBlock(shape, plan, input, 0.0f, team, [&](WindowArgs& a, int64_t plane) {
    const ConvAxes& axes = a.layout->axes;
    float row_counts[kLineFloats], column_counts[kMaxColumns];
    const int64_t depth_count = CountTaps(axes.depth, pad_end(last - 2), count, a.block.depth);
    for (int64_t r = 0; r < a.block.rows; ++r) {
      row_counts[r] = static_cast<float>(
          depth_count * CountTaps(axes.rows, pad_end(last - 1), count, a.block.row + r));
    }
    for (int64_t c = 0; c < a.block.columns; ++c) {
      column_counts[c] =
          static_cast<float>(CountTaps(axes.columns, pad_end(last), count, a.block.column + c));
    }
    a.row_counts = row_counts;
    a.column_counts = column_counts;
    a.out = BlockOutput(a, output, plane);
    HWY_DYNAMIC_DISPATCH(AverageBlock)(a);
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
