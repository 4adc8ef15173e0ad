#include "kernels/pool/pool_last.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/pool_last.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/elementwise/tail-inl.h"

#ifndef PARALLAX_KERNELS_POOL_POOL_LAST_ARGS_
#define PARALLAX_KERNELS_POOL_POOL_LAST_ARGS_
namespace parallax::kernels {

// The window of one output position: `rows` x `columns` elements from `first` on.
struct WindowLast {
  const float* first = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_step = 0, column_step = 0;  // floats
  int64_t channels = 0;
  float scale = 1;  // average only: one over the divisor
  float* out = nullptr;
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

template <bool kMax>
HWY_INLINE V Take(V sum, V x) {
  if constexpr (!kMax) return hn::Add(sum, x);
  // x wins where it is greater or NaN; a NaN that won before stays.
  return hn::IfThenElse(hn::Or(hn::Gt(x, sum), hn::IsNaN(x)), x, sum);
}

template <bool kMax>
void Window(const WindowLast& w) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V start = kMax ? hn::Set(d, -std::numeric_limits<float>::infinity()) : hn::Zero(d);
  const V scale = hn::Set(d, kMax ? 1.0f : w.scale);
  int64_t c = 0;
  // Four vectors at once: one after the other they would wait for each comparison.
  for (; c + 4 * lanes <= w.channels; c += 4 * lanes) {
    V s0 = start, s1 = start, s2 = start, s3 = start;
    for (int64_t r = 0; r < w.rows; ++r) {
      const float* from = w.first + r * w.row_step + c;
      for (int64_t k = 0; k < w.columns; ++k, from += w.column_step) {
        s0 = Take<kMax>(s0, hn::LoadU(d, from));
        s1 = Take<kMax>(s1, hn::LoadU(d, from + lanes));
        s2 = Take<kMax>(s2, hn::LoadU(d, from + 2 * lanes));
        s3 = Take<kMax>(s3, hn::LoadU(d, from + 3 * lanes));
      }
    }
    float* out = w.out + c;
    hn::StoreU(kMax ? s0 : hn::Mul(s0, scale), d, out);
    hn::StoreU(kMax ? s1 : hn::Mul(s1, scale), d, out + lanes);
    hn::StoreU(kMax ? s2 : hn::Mul(s2, scale), d, out + 2 * lanes);
    hn::StoreU(kMax ? s3 : hn::Mul(s3, scale), d, out + 3 * lanes);
  }
  for (; c < w.channels; c += lanes) {
    const size_t n = static_cast<size_t>(w.channels - c);
    const bool whole = c + lanes <= w.channels;
    V sum = start;
    for (int64_t r = 0; r < w.rows; ++r) {
      const float* from = w.first + r * w.row_step + c;
      for (int64_t k = 0; k < w.columns; ++k, from += w.column_step) {
        sum = Take<kMax>(sum, whole ? hn::LoadU(d, from) : LoadTail(d, from, n));
      }
    }
    if constexpr (!kMax) sum = hn::Mul(sum, scale);
    if (whole) {
      hn::StoreU(sum, d, w.out + c);
    } else {
      StoreTail(sum, d, w.out + c, n);
    }
  }
}
void WindowMaxLast(const WindowLast& w) { Window<true>(w); }
void WindowSumLast(const WindowLast& w) { Window<false>(w); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(WindowMaxLast);
HWY_EXPORT(WindowSumLast);

struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, pad_end = 0;
};
Axis AxisOf(const PoolShape& s, int i) {
  return {s.in[i],        s.out[i],        s.kernel[i],  s.strides[i],
          s.dilations[i], s.pads_begin[i], s.pads_end[i]};
}

// What of the window at output `at` lies in the input: taps [begin, begin + count), and how many
// lie in the padded input.
struct Span {
  int64_t first = 0, count = 0, padded = 0;
};
Span SpanOf(const Axis& a, int64_t at) {
  const int64_t origin = at * a.stride - a.pad;
  const int64_t begin = origin >= 0 ? 0 : CeilDiv(-origin, a.dilation);
  const int64_t end = origin >= a.in ? 0 : std::min(a.kernel, CeilDiv(a.in - origin, a.dilation));
  const int64_t padded = std::min(a.kernel, CeilDiv(a.in + a.pad_end - origin, a.dilation));
  return {origin + begin * a.dilation, std::max<int64_t>(end - begin, 0), padded};
}

template <class F>
void Pool(const PoolShape& s, const float* input, float* output, Team& team, F window) {
  const Axis rows = s.rank == 2 ? AxisOf(s, 0) : Axis();
  const Axis columns = AxisOf(s, s.rank - 1);
  team.Run(s.batch * rows.out, [&](int64_t task, int) {
    const int64_t image = task / rows.out, row = task % rows.out;
    const Span r = SpanOf(rows, row);
    WindowLast w;
    w.channels = s.channels;
    w.row_step = rows.dilation * columns.in * s.channels;
    w.column_step = columns.dilation * s.channels;
    for (int64_t column = 0; column < columns.out; ++column) {
      const Span c = SpanOf(columns, column);
      w.rows = c.count > 0 ? r.count : 0;
      w.columns = c.count;
      w.first = w.rows > 0
                    ? input + ((image * rows.in + r.first) * columns.in + c.first) * s.channels
                    : input;
      w.out = output + ((image * rows.out + row) * columns.out + column) * s.channels;
      window(w, r.count * c.count, r.padded * c.padded);
    }
  });
}

}  // namespace

void MaxPoolLast(const PoolShape& shape, const float* input, float* output, Team& team) {
  Pool(shape, input, output, team, [](WindowLast& w, int64_t, int64_t) {
    HWY_DYNAMIC_DISPATCH(WindowMaxLast)(w);
  });
}

void AveragePoolLast(const PoolShape& shape, const float* input, float* output, PadCount count,
                     Team& team) {
  Pool(shape, input, output, team, [count](WindowLast& w, int64_t inside, int64_t padded) {
    const int64_t divisor = count == PadCount::kInclude ? padded : inside;
    w.scale = divisor > 0 ? 1.0f / static_cast<float>(divisor) : 0.0f;
    HWY_DYNAMIC_DISPATCH(WindowSumLast)(w);
  });
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
