// The convolution of an image: few input channels, stored as planes; the output has channels last.
//
// A register tile is some neighbouring output positions by some vectors of output channels: for each
// (tap, channel) it adds one input element of each position times the weights of all channels. The
// elements are read where they lie, a stride apart; a tile whose windows reach past an edge of the
// image reads a copy of them with zeros around.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/gemm/panel.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/stem.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/conv/finish-inl.h"
#include "kernels/inner_loop-inl.h"

#ifndef PARALLAX_KERNELS_CONV_STEM_ARGS_
#define PARALLAX_KERNELS_CONV_STEM_ARGS_
namespace parallax::kernels {

// One row of outputs, one panel of output channels.
struct StemRow {
  const float* image = nullptr;  // of plane 0
  ConvAxis rows, columns;
  int64_t channels_in = 0;
  int64_t row = 0;                   // of outputs
  const int64_t* offsets = nullptr;  // of each (tap, channel) in the image
  float* window = nullptr;           // [channel][kernel row][window_width]: what an edge tile reads
  int64_t window_width = 0;
  const int64_t* window_offsets = nullptr;  // and of each (tap, channel) there
  int64_t depth = 0;
  const float* weights = nullptr;  // [depth][width]
  int64_t width = 0;               // whole vectors, at most kStemVectors
  int64_t channels = 0;            // of them that exist
  const float* bias = nullptr;
  const float* residual = nullptr;  // at y's place
  float lo = 0, hi = 0;             // infinite where nothing is clamped
  float* y = nullptr;
  int64_t step = 0;      // floats from output to output
  bool fetches = false;  // the first panel of a row: what the next row reads
};
inline constexpr int64_t kStemVectors = 3;
inline constexpr int64_t kStemPositions = 16;  // of the widest register tile

}  // namespace parallax::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Positions of a register tile, by vectors of channels: as many as registers hold.
constexpr int kPositions[] = {0, kManyRegisters ? 16 : 12, kManyRegisters ? 12 : 6,
                              kManyRegisters ? 8 : 4};

#define PX_FOR_POSITIONS(X) \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

HWY_INLINE void StoreVector(const StemRow& r, V y, V lo, V hi, int64_t at, int64_t c) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  FinishLanes(d, y, r.residual != nullptr ? r.residual + at + c : nullptr, /*clamp=*/true, lo, hi,
              r.y + at + c, c + lanes <= r.channels, static_cast<size_t>(r.channels - c));
}

// The outputs from `column` on. `x` is the first one's first element, `offsets` lead to those of each
// (tap, channel). kStride 0: any.
template <int kVectors, int kStride>
HWY_INLINE void StemTile(const StemRow& r, int64_t column, const float* HWY_RESTRICT first,
                         const int64_t* HWY_RESTRICT offsets, V bias0, V bias1, V bias2) {
  constexpr int kRows = kPositions[kVectors];
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t stride = kStride > 0 ? kStride : r.columns.stride;
#define PX_SETUP(p) V s##p##_0 = bias0, s##p##_1 = bias1, s##p##_2 = bias2;
  PX_FOR_POSITIONS(PX_SETUP)
#undef PX_SETUP
  const float* HWY_RESTRICT w = r.weights;
  for (int64_t k = 0; k < r.depth; ++k, w += kVectors * lanes) {
    const float* HWY_RESTRICT x = first + offsets[k];
    const V w0 = hn::LoadU(d, w);
    const V w1 = kVectors > 1 ? hn::LoadU(d, w + lanes) : w0;
    const V w2 = kVectors > 2 ? hn::LoadU(d, w + 2 * lanes) : w0;
#define PX_MULTIPLY(p)                                       \
  if constexpr (kRows > p) {                                 \
    const V a = hn::Set(d, x[p * stride]);                   \
    AddProduct(a, w0, s##p##_0);                             \
    if constexpr (kVectors > 1) AddProduct(a, w1, s##p##_1); \
    if constexpr (kVectors > 2) AddProduct(a, w2, s##p##_2); \
  }
    PX_FOR_POSITIONS(PX_MULTIPLY)
#undef PX_MULTIPLY
  }
  const V lo = hn::Set(d, r.lo), hi = hn::Set(d, r.hi);
  // No branches between the stores where nothing but a clamp can be left to do.
  if (r.residual == nullptr && r.channels == r.width && column + kRows <= r.columns.out) {
    float* y = r.y + column * r.step;
#define PX_STORE(p)                                                                       \
  if constexpr (kRows > p) {                                                              \
    hn::StoreU(Clamp(d, s##p##_0, lo, hi), d, y);                                         \
    if constexpr (kVectors > 1) hn::StoreU(Clamp(d, s##p##_1, lo, hi), d, y + lanes);     \
    if constexpr (kVectors > 2) hn::StoreU(Clamp(d, s##p##_2, lo, hi), d, y + 2 * lanes); \
    y += r.step;                                                                          \
  }
    PX_FOR_POSITIONS(PX_STORE)
#undef PX_STORE
    return;
  }
#define PX_STORE(p)                                                                \
  if constexpr (kRows > p) {                                                       \
    if (column + p < r.columns.out) {                                              \
      const int64_t at = (column + p) * r.step;                                    \
      StoreVector(r, s##p##_0, lo, hi, at, 0);                                     \
      if constexpr (kVectors > 1) StoreVector(r, s##p##_1, lo, hi, at, lanes);     \
      if constexpr (kVectors > 2) StoreVector(r, s##p##_2, lo, hi, at, 2 * lanes); \
    }                                                                              \
  }
  PX_FOR_POSITIONS(PX_STORE)
#undef PX_STORE
}
#undef PX_FOR_POSITIONS

// Copies the window of a tile that begins at output `column`.
HWY_INLINE void CopyWindow(const StemRow& r, int64_t column) {
  const int64_t first = column * r.columns.stride - r.columns.pad;
  const int64_t lo = HWY_MIN(HWY_MAX(-first, static_cast<int64_t>(0)), r.window_width);
  const int64_t hi = HWY_MAX(HWY_MIN(r.columns.in - first, r.window_width), lo);
  float* to = r.window;
  for (int64_t c = 0; c < r.channels_in; ++c) {
    const float* plane = r.image + c * r.rows.in * r.columns.in;
    for (int64_t kh = 0; kh < r.rows.kernel; ++kh, to += r.window_width) {
      const int64_t ih = r.row * r.rows.stride + kh * r.rows.dilation - r.rows.pad;
      const bool inside = ih >= 0 && ih < r.rows.in && hi > lo;
      std::fill_n(to, inside ? lo : r.window_width, 0.0f);
      if (!inside) continue;
      std::memcpy(to + lo, plane + ih * r.columns.in + first + lo,
                  static_cast<size_t>(hi - lo) * sizeof(float));
      std::fill_n(to + hi, r.window_width - hi, 0.0f);
    }
  }
}

// Asks for what the outputs of the next row below those from `column` on read first. A whole row of
// tiles is as long as memory takes to answer.
HWY_INLINE void FetchBelow(const StemRow& r, int64_t column, int64_t outputs) {
  constexpr int64_t kLine = 16;
  const ConvAxis &h = r.rows, &w = r.columns;
  const int64_t left = HWY_MAX(column * w.stride - w.pad, static_cast<int64_t>(0));
  const int64_t right = HWY_MIN(left + outputs * w.stride, w.in);
  const int64_t top = (r.row + 1) * h.stride - h.pad;
  for (int64_t kh = HWY_MAX(h.kernel - h.stride, static_cast<int64_t>(0)); kh < h.kernel; ++kh) {
    const int64_t ih = top + kh * h.dilation;
    if (ih < 0 || ih >= h.in) continue;
    for (int64_t c = 0; c < r.channels_in; ++c) {
      const float* row = r.image + (c * h.in + ih) * w.in;
      for (int64_t i = left; i < right; i += kLine) hwy::Prefetch(row + i);
    }
  }
}

template <int kVectors, int kStride>
void StemRowBy(const StemRow& args) {
  constexpr int64_t kRows = kPositions[kVectors];
  const D d;
  const StemRow r = args;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bias_at = [&](int64_t c) HWY_ATTR {
    if (r.bias == nullptr || c >= r.channels) return hn::Zero(d);
    return LoadLanes(d, r.bias + c, c + lanes <= r.channels, static_cast<size_t>(r.channels - c));
  };
  const V bias0 = bias_at(0), bias1 = bias_at(lanes), bias2 = bias_at(2 * lanes);
  const ConvAxis &h = r.rows, &w = r.columns;
  const int64_t top = r.row * h.stride - h.pad;
  const bool rows_inside = top >= 0 && top + (h.kernel - 1) * h.dilation < h.in;
  for (int64_t column = 0; column < w.out; column += kRows) {
    if (r.fetches) FetchBelow(r, column, kRows);
    const int64_t left = column * w.stride - w.pad;
    const int64_t right = left + (kRows - 1) * w.stride + (w.kernel - 1) * w.dilation;
    if (rows_inside && left >= 0 && right < w.in) {
      StemTile<kVectors, kStride>(r, column, r.image + top * w.in + left, r.offsets, bias0, bias1,
                                  bias2);
    } else {
      CopyWindow(r, column);
      StemTile<kVectors, kStride>(r, column, r.window, r.window_offsets, bias0, bias1, bias2);
    }
  }
}

template <int kVectors>
void StemRowOf(const StemRow& r) {
  if (r.columns.stride == 1) return StemRowBy<kVectors, 1>(r);
  if (r.columns.stride == 2) return StemRowBy<kVectors, 2>(r);
  if (r.columns.stride == 4) return StemRowBy<kVectors, 4>(r);
  StemRowBy<kVectors, 0>(r);
}

void RunStemRow(const StemRow& r) {
  const int64_t vectors = r.width / static_cast<int64_t>(hn::Lanes(D()));
  if (vectors == 1) return StemRowOf<1>(r);
  if (vectors == 2) return StemRowOf<2>(r);
  StemRowOf<3>(r);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(RunStemRow);

// Taps times channels whose offsets lie on the stack.
constexpr int64_t kMaxDepth = 512;
// Of a window: an image's are below a thousand.
constexpr int64_t kMaxWindowFloats = 1 << 14;
constexpr double kMinTaskMacs = 1 << 16;
constexpr int64_t kMaxTasks = 64;

// Columns that the windows of a tile cover. REQUIRES: HasStem.
int64_t WindowWidth(const ConvShape& s) {
  return (kStemPositions - 1) * s.strides[1] + (s.kernel[1] - 1) * s.dilations[1] + 1;
}

}  // namespace

bool HasStem(const ConvShape& s) {
  return s.layout == ConvLayout::kFirstToLast && s.groups == 1 && s.rank == 2 &&
         s.in_channels > 0 && s.KernelSize() <= kMaxDepth &&
         s.in_channels * s.KernelSize() <= kMaxDepth && s.strides[1] < kMaxWindowFloats &&
         s.dilations[1] < kMaxWindowFloats &&
         WindowWidth(s) * s.in_channels * s.kernel[0] <= kMaxWindowFloats;
}

void PlanStem(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const double row_macs =
      static_cast<double>(s.out[1] * s.out_channels * s.in_channels * s.KernelSize());
  const auto rows = static_cast<double>(s.out[0]);
  const double tasks =
      std::clamp(row_macs * rows / kMinTaskMacs, 1.0, static_cast<double>(kMaxTasks));
  plan.rows_per_task = std::max<int64_t>(1, static_cast<int64_t>(rows / tasks));
  plan.packed_weight_bytes = static_cast<size_t>(
      RoundUp(s.in_channels * s.KernelSize() * PanelColumns(s.out_channels) * 4, 64));
  plan.worker_bytes =
      static_cast<size_t>(RoundUp(s.in_channels * s.kernel[0] * WindowWidth(s) * 4, 64));
}

void PackStem(const ConvPlan& plan, const void* weights, float* packed) {
  const ConvShape& s = plan.shape;
  const int64_t taps = s.KernelSize(), depth = taps * s.in_channels;
  const int64_t panel_width = EvenPanelColumns(s.out_channels, kStemVectors);
  const auto* bytes = static_cast<const std::byte*>(weights);
  for (int64_t first = 0; first < s.out_channels; first += panel_width) {
    const int64_t columns = std::min(panel_width, s.out_channels - first);
    const int64_t width = PanelColumns(columns);
    float* panel = packed + first * depth;
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < s.in_channels; ++c, panel += width) {
        std::fill_n(panel, width, 0.0f);
        for (int64_t j = 0; j < columns; ++j) {
          std::memcpy(panel + j, bytes + (((first + j) * s.in_channels + c) * taps + t) * 4, 4);
        }
      }
    }
  }
}

void RunStem(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  StemRow shared;
  shared.rows = axes.rows;
  shared.columns = axes.columns;
  shared.channels_in = s.in_channels;
  shared.window_width = WindowWidth(s);
  shared.depth = s.KernelSize() * s.in_channels;
  shared.lo = args.lo();
  shared.hi = args.hi();
  shared.step = s.out_channels;
  int64_t offsets[kMaxDepth], window_offsets[kMaxDepth], k = 0;
  for (int64_t kh = 0; kh < s.kernel[0]; ++kh) {
    for (int64_t kw = 0; kw < s.kernel[1]; ++kw) {
      const int64_t right = kw * s.dilations[1];
      for (int64_t c = 0; c < s.in_channels; ++c, ++k) {
        offsets[k] = c * s.InSize() + kh * s.dilations[0] * s.in[1] + right;
        window_offsets[k] = (c * s.kernel[0] + kh) * shared.window_width + right;
      }
    }
  }
  shared.offsets = offsets;
  shared.window_offsets = window_offsets;
  const int64_t blocks = CeilDiv(s.out[0], plan.rows_per_task);
  const int64_t panel_width = EvenPanelColumns(s.out_channels, kStemVectors);
  const float* residual = args.epilogue.first_residual();
  team.Run(s.batch * blocks, [&](int64_t task, int worker) {
    const int64_t image = task / blocks, first_row = task % blocks * plan.rows_per_task;
    const int64_t row_floats = s.out[1] * s.out_channels;
    StemRow r = shared;
    r.image = args.input + image * s.in_channels * s.InSize();
    r.window =
        reinterpret_cast<float*>(args.workspace + plan.worker_bytes * static_cast<size_t>(worker));
    for (r.row = first_row; r.row < std::min(first_row + plan.rows_per_task, s.out[0]); ++r.row) {
      const int64_t at = (image * s.out[0] + r.row) * row_floats;
      for (int64_t first = 0; first < s.out_channels; first += panel_width) {
        r.fetches = first == 0;
        r.channels = std::min(panel_width, s.out_channels - first);
        r.width = PanelColumns(r.channels);
        r.weights = args.packed + first * r.depth;
        r.bias = args.bias != nullptr ? args.bias + first : nullptr;
        r.residual = residual != nullptr ? residual + at + first : nullptr;
        r.y = args.output + at + first;
        HWY_DYNAMIC_DISPATCH(RunStemRow)(r);
      }
      FinishBlock(args.epilogue, args.output + at,
                  args.epilogue.residual != nullptr ? args.epilogue.residual + at : nullptr, 1,
                  row_floats, row_floats);
    }
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
