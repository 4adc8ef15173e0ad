#include "kernels/conv/patch.h"

#include "base/checked.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/patch.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void Fill(float value, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Set(d, value), d, to + i);
  for (; i < n; ++i) to[i] = value;
}

// to[i] = from[i * step], i < n.
HWY_INLINE void CopyStrided(const float* from, int64_t step, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (step == 1) {
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  } else if (step == 2) {
    // Strictly less: the pair of the last element may lie past the input's end.
    for (; i + lanes < n; i += lanes) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, from + 2 * i, even, odd);
      hn::StoreU(even, d, to + i);
    }
  }
  for (; i < n; ++i) to[i] = from[i * step];
}

// to[i] = row[start + i * step] where that lies in [0, extent), else fill; i < n.
HWY_INLINE void CopyRow(const float* row, int64_t extent, int64_t start, int64_t step, int64_t n,
                        float fill, float* to) {
  int64_t begin = start >= 0 ? 0 : CeilDiv(-start, step);
  int64_t end = start >= extent ? 0 : CeilDiv(extent - start, step);
  begin = HWY_MIN(begin, n);
  end = HWY_MAX(HWY_MIN(end, n), begin);
  Fill(fill, to, begin);
  if (begin < end) CopyStrided(row + start + begin * step, step, end - begin, to + begin);
  Fill(fill, to + end, n - end);
}

void CopyPatchesImpl(const PatchLayout& l, const PatchBlock& block, const float* input,
                     int64_t channels, int64_t channel_stride, float fill, float* patches) {
  const ConvAxis &depth = l.axes.depth, &rows = l.axes.rows, &columns = l.axes.columns;
  const int64_t phase_size = (l.block_rows + rows.max_shift) * l.pitch;
  for (int64_t channel = 0; channel < channels; ++channel) {
    const float* plane = input + channel * channel_stride;
    float* to = patches + channel * l.channel_size;
    for (int64_t kd = 0; kd < depth.kernel; ++kd) {
      const int64_t id = block.depth * depth.stride + kd * depth.dilation - depth.pad;
      // The taps [0, stride) reach every phase in the order TapOffsets counts them.
      for (int64_t kh = 0; kh < rows.phases; ++kh) {
        for (int64_t kw = 0; kw < columns.phases; ++kw, to += phase_size) {
          const int64_t row_phase = rows.Phase(kh), column_phase = columns.Phase(kw);
          const int64_t height = block.rows + rows.max_shift;
          const int64_t width = block.columns + columns.max_shift;
          const int64_t start = block.column * columns.stride + column_phase - columns.pad;
          for (int64_t q = 0; q < height; ++q) {
            const int64_t ih = (block.row + q) * rows.stride + row_phase - rows.pad;
            if (id < 0 || id >= depth.in || ih < 0 || ih >= rows.in) {
              Fill(fill, to + q * l.pitch, width);
            } else {
              CopyRow(plane + (id * rows.in + ih) * columns.in, columns.in, start, columns.stride,
                      width, fill, to + q * l.pitch);
            }
          }
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
  channel_size = axes.depth.kernel * axes.rows.phases * axes.columns.phases *
                 (rows + axes.rows.max_shift) * pitch;
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

}  // namespace parallax::kernels
#endif  // HWY_ONCE
