#include "kernels/conv/patch.h"

#include "base/checked.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/patch.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/copy-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void Fill(float value, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

// Padded row positions [begin, end) of a column phase lie in the input, the first at `first`.
struct ColumnClip {
  int64_t begin = 0, end = 0, first = 0;
};
HWY_INLINE ColumnClip ClipColumns(const ConvAxis& a, const PatchBlock& block, int64_t phase,
                                  int64_t width) {
  const int64_t start = block.column * a.stride + phase - a.pad;
  ColumnClip c;
  c.begin = start >= 0 ? 0 : CeilDiv(-start, a.stride);
  c.end = start >= a.in ? 0 : CeilDiv(a.in - start, a.stride);
  c.begin = HWY_MIN(c.begin, width);
  c.end = HWY_MAX(HWY_MIN(c.end, width), c.begin);
  c.first = start + c.begin * a.stride;
  return c;
}

HWY_INLINE void CopyRow(const float* row, const ColumnClip& clip, int64_t stride, int64_t width,
                        float fill, float* to) {
  Fill(fill, to, clip.begin);
  const int64_t n = clip.end - clip.begin;
  const float* from = row + clip.first;
  if (n > 0) {
    if (stride == 1) {
      CopyFloats(from, n, to + clip.begin);
    } else if (stride == 2) {
      CopyEven(from, n, to + clip.begin);
    } else {
      for (int64_t i = 0; i < n; ++i) to[clip.begin + i] = from[i * stride];
    }
  }
  Fill(fill, to + clip.end, width - clip.end);
}

void CopyStridedImpl(const float* from, int64_t stride, int64_t n, float* to) {
  if (stride == 1) {
    CopyFloats(from, n, to);
  } else if (stride == 2) {
    CopyEven(from, n, to);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

void CopyPatchesImpl(const PatchLayout& l, const PatchBlock& block, const float* input,
                     int64_t channels, int64_t channel_stride, float fill, float* patches) {
  const ConvAxis &depth = l.axes.depth, &rows = l.axes.rows, &columns = l.axes.columns;
  const int64_t phase_size = (l.block_rows + rows.max_shift) * l.pitch;
  const int64_t height = block.rows + rows.max_shift;
  const int64_t width = block.columns + columns.max_shift;
  const int64_t slices = depth.kernel * rows.phases * columns.phases;
  for (int64_t slice = 0; slice < slices; ++slice) {
    // The order of TapOffsets; tap i < phases has phase i of it.
    const int64_t kw = slice % columns.phases, kh = slice / columns.phases % rows.phases;
    const int64_t kd = slice / (columns.phases * rows.phases);
    const int64_t id = block.depth * depth.stride + kd * depth.dilation - depth.pad;
    const int64_t first_row = block.row * rows.stride + rows.Phase(kh) - rows.pad;
    const ColumnClip clip = ClipColumns(columns, block, columns.Phase(kw), width);
    for (int64_t channel = 0; channel < channels; ++channel) {
      const float* plane = input + channel * channel_stride + id * rows.in * columns.in;
      float* to = patches + channel * l.channel_size + slice * phase_size;
      for (int64_t q = 0; q < height; ++q, to += l.pitch) {
        const int64_t ih = first_row + q * rows.stride;
        if (id < 0 || id >= depth.in || ih < 0 || ih >= rows.in) {
          Fill(fill, to, width);
        } else {
          CopyRow(plane + ih * columns.in, clip, columns.stride, width, fill, to);
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
HWY_EXPORT(CopyPatchesImpl);
HWY_EXPORT(CopyStridedImpl);

ConvAxis MakeAxis(const ConvShape& s, int dimension) {
  if (dimension < 0) return {};
  ConvAxis a{.in = s.in[dimension],
             .out = s.out[dimension],
             .kernel = s.kernel[dimension],
             .stride = s.strides[dimension],
             .dilation = s.dilations[dimension],
             .pad = s.pads_begin[dimension]};
  // Phases repeat after stride / gcd(stride, dilation) taps and are distinct before.
  a.phases = 0;
  while (a.phases < a.kernel && (a.phases == 0 || a.Phase(a.phases) != a.Phase(0))) ++a.phases;
  a.max_shift = a.Shift(a.kernel - 1);
  return a;
}

}  // namespace

ConvAxes MakeAxes(const ConvShape& shape) {
  return {.depth = MakeAxis(shape, shape.rank - 3),
          .rows = MakeAxis(shape, shape.rank - 2),
          .columns = MakeAxis(shape, shape.rank - 1)};
}

PatchLayout::PatchLayout(const ConvAxes& conv_axes, int64_t rows, int64_t columns)
    : axes(conv_axes), block_rows(rows), block_columns(columns) {
  pitch = columns + axes.columns.max_shift;
  // No memory holds a patch of so many floats, and small multiples of them still fit int64.
  constexpr int64_t kTooLarge = int64_t{1} << 48;
  channel_size = kTooLarge;
  std::optional<int64_t> size = CheckedMul(axes.depth.kernel, axes.rows.phases);
  if (size) size = CheckedMul(*size, axes.columns.phases);
  if (size) size = CheckedMul(*size, rows + axes.rows.max_shift);
  if (size) size = CheckedMul(*size, pitch);
  if (size) channel_size = std::min(channel_size, *size);
  // Neighbouring channels are read together: a distance that is a multiple of 4 KB would put them
  // into the same sets of L1.
  channel_size = RoundUp(channel_size, 16);
  if (channel_size % 256 == 0) channel_size += 16;
}

void PatchLayout::TapOffsets(int64_t* offsets) const {
  const int64_t phase_size = (block_rows + axes.rows.max_shift) * pitch;
  for (int64_t kd = 0; kd < axes.depth.kernel; ++kd) {
    for (int64_t kh = 0; kh < axes.rows.kernel; ++kh) {
      for (int64_t kw = 0; kw < axes.columns.kernel; ++kw) {
        const int64_t phase =
            (kd * axes.rows.phases + kh % axes.rows.phases) * axes.columns.phases +
            kw % axes.columns.phases;
        *offsets++ = phase * phase_size + axes.rows.Shift(kh) * pitch + axes.columns.Shift(kw);
      }
    }
  }
}

void CopyPatches(const PatchLayout& layout, const PatchBlock& block, const float* input,
                 int64_t channels, int64_t channel_stride, float fill, float* patches) {
  HWY_DYNAMIC_DISPATCH(CopyPatchesImpl)
  (layout, block, input, channels, channel_stride, fill, patches);
}

void CopyStrided(const float* from, int64_t stride, int64_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(CopyStridedImpl)(from, stride, n, to);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
