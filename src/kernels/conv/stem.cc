// The convolution of an image: few input channels, stored as planes; the output has channels last.
//
// Rows of the planes are copied once into a patch in which every tap is a shift (patch.h). A
// register tile is some neighbouring output positions by some vectors of output channels: it adds
// one input element of each position, times the weights of all channels, for each (tap, channel).
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/gemm/panel.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/stem.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/conv/finish-inl.h"

#ifndef PARALLAX_KERNELS_CONV_STEM_ARGS_
#define PARALLAX_KERNELS_CONV_STEM_ARGS_
namespace parallax::kernels {

// One row of outputs, one panel of output channels.
struct StemRow {
  const float* patch = nullptr;      // at the row's first position
  const int64_t* offsets = nullptr;  // of each (tap, channel) in the patch
  int64_t depth = 0;
  int64_t columns = 0;             // outputs
  const float* weights = nullptr;  // [depth][width]
  int64_t width = 0;               // whole vectors, at most kStemVectors
  int64_t channels = 0;            // of them that exist
  const float* bias = nullptr;
  const float* residual = nullptr;  // at y's place
  bool clamp = false;
  float lo = 0, hi = 0;
  float* y = nullptr;
  int64_t step = 0;  // floats from output to output
};
inline constexpr int64_t kStemVectors = 3;
// Positions that a register tile reads past the last one.
inline constexpr int64_t kStemSlack = 16;

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
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_RVV
constexpr int kPositions[] = {0, 16, 12, 8};
#else
constexpr int kPositions[] = {0, 12, 6, 4};
#endif

#define PX_FOR_POSITIONS(X) \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

HWY_INLINE void StoreVector(const StemRow& r, V y, V bias, V lo, V hi, int64_t at, int64_t c) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool whole = c + lanes <= r.channels;
  const size_t n = static_cast<size_t>(r.channels - c);
  FinishLanes(d, hn::Add(y, bias), r.residual != nullptr ? r.residual + at + c : nullptr, r.clamp,
              lo, hi, r.y + at + c, whole, n);
}

template <int kVectors>
void StemRowBy(const StemRow& args) {
  constexpr int kRows = kPositions[kVectors];
  const D d;
  const StemRow r = args;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bias_at = [&](int64_t c) HWY_ATTR {
    if (r.bias == nullptr || c >= r.channels) return hn::Zero(d);
    if (c + lanes <= r.channels) return hn::LoadU(d, r.bias + c);
    return LoadTail(d, r.bias + c, static_cast<size_t>(r.channels - c));
  };
  const V bias0 = bias_at(0), bias1 = bias_at(lanes), bias2 = bias_at(2 * lanes);
  const V lo = hn::Set(d, r.lo), hi = hn::Set(d, r.hi);
  for (int64_t column = 0; column < r.columns; column += kRows) {
#define PX_SETUP(p) V s##p##_0 = hn::Zero(d), s##p##_1 = s##p##_0, s##p##_2 = s##p##_0;
    PX_FOR_POSITIONS(PX_SETUP)
#undef PX_SETUP
    const float* HWY_RESTRICT w = r.weights;
    for (int64_t k = 0; k < r.depth; ++k, w += kVectors * lanes) {
      const float* HWY_RESTRICT x = r.patch + column + r.offsets[k];
      const V w0 = hn::LoadU(d, w);
      const V w1 = kVectors > 1 ? hn::LoadU(d, w + lanes) : w0;
      const V w2 = kVectors > 2 ? hn::LoadU(d, w + 2 * lanes) : w0;
#define PX_MULTIPLY(p)                                                  \
  if constexpr (kRows > p) {                                            \
    const V a = hn::Set(d, x[p]);                                       \
    s##p##_0 = hn::MulAdd(a, w0, s##p##_0);                             \
    if constexpr (kVectors > 1) s##p##_1 = hn::MulAdd(a, w1, s##p##_1); \
    if constexpr (kVectors > 2) s##p##_2 = hn::MulAdd(a, w2, s##p##_2); \
  }
      PX_FOR_POSITIONS(PX_MULTIPLY)
#undef PX_MULTIPLY
    }
#define PX_STORE(p)                                                                       \
  if constexpr (kRows > p) {                                                              \
    if (column + p < r.columns) {                                                         \
      const int64_t at = (column + p) * r.step;                                           \
      StoreVector(r, s##p##_0, bias0, lo, hi, at, 0);                                     \
      if constexpr (kVectors > 1) StoreVector(r, s##p##_1, bias1, lo, hi, at, lanes);     \
      if constexpr (kVectors > 2) StoreVector(r, s##p##_2, bias2, lo, hi, at, 2 * lanes); \
    }                                                                                     \
  }
    PX_FOR_POSITIONS(PX_STORE)
#undef PX_STORE
  }
}
#undef PX_FOR_POSITIONS

void RunStemRow(const StemRow& r) {
  const int64_t vectors = r.width / static_cast<int64_t>(hn::Lanes(D()));
  if (vectors == 1) return StemRowBy<1>(r);
  if (vectors == 2) return StemRowBy<2>(r);
  StemRowBy<3>(r);
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
constexpr int64_t kPatchBytes = 64 << 10;
constexpr double kMinTaskMacs = 1 << 16;
constexpr int64_t kMaxTasks = 64;

int64_t PatchFloats(const ConvShape& s, const PatchLayout& layout) {
  return RoundUp(s.in_channels * layout.channel_size + kStemSlack, 16);
}

}  // namespace

bool HasStem(const ConvShape& s) {
  return s.layout == ConvLayout::kFirstToLast && s.groups == 1 && s.rank == 2 &&
         s.in_channels * s.KernelSize() <= kMaxDepth && s.in_channels > 0;
}

void PlanStem(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const ConvAxes axes = MakeAxes(s);
  const double row_macs =
      static_cast<double>(axes.columns.out * s.out_channels * s.in_channels * s.KernelSize());
  const double tasks = std::clamp(row_macs * static_cast<double>(axes.rows.out) / kMinTaskMacs, 1.0,
                                  static_cast<double>(kMaxTasks));
  int64_t rows =
      std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(axes.rows.out) / tasks));
  while (rows > 1 && PatchFloats(s, PatchLayout(axes, rows, axes.columns.out)) * 4 > kPatchBytes) {
    rows = CeilDiv(rows, 2);
  }
  plan.rows_per_task = rows;
  plan.packed_weight_bytes = static_cast<size_t>(
      RoundUp(s.in_channels * s.KernelSize() * PanelColumns(s.out_channels) * 4, 64));
  plan.worker_bytes =
      static_cast<size_t>(PatchFloats(s, PatchLayout(axes, rows, axes.columns.out)) * 4);
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
  const PatchLayout layout(MakeAxes(s), plan.rows_per_task, s.out[1]);
  int64_t taps[kMaxTaps], offsets[kMaxDepth];
  layout.TapOffsets(taps);
  for (int64_t k = 0; k < s.KernelSize() * s.in_channels; ++k) {
    offsets[k] = taps[k / s.in_channels] + k % s.in_channels * layout.channel_size;
  }
  const int64_t blocks = CeilDiv(s.out[0], plan.rows_per_task);
  const int64_t panel_width = EvenPanelColumns(s.out_channels, kStemVectors);
  const float* residual = args.epilogue.first_residual();
  team.Run(s.batch * blocks, [&](int64_t task, int worker) {
    const int64_t image = task / blocks;
    PatchBlock block;
    block.row = task % blocks * plan.rows_per_task;
    block.rows = std::min(plan.rows_per_task, s.out[0] - block.row);
    block.columns = s.out[1];
    auto* patch =
        reinterpret_cast<float*>(args.workspace + plan.worker_bytes * static_cast<size_t>(worker));
    CopyPatches(layout, block, args.input + image * s.in_channels * s.InSize(), s.in_channels,
                s.InSize(), 0.0f, patch);
    StemRow r;
    r.offsets = offsets;
    r.depth = s.KernelSize() * s.in_channels;
    r.columns = s.out[1];
    r.clamp = args.clamps();
    r.lo = args.lo();
    r.hi = args.hi();
    r.step = s.out_channels;
    const int64_t row_floats = s.out[1] * s.out_channels;
    for (int64_t row = 0; row < block.rows; ++row) {
      const int64_t at = (image * s.out[0] + block.row + row) * row_floats;
      r.patch = patch + row * layout.pitch;
      for (int64_t first = 0; first < s.out_channels; first += panel_width) {
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
