#include "kernels/conv/conv_transpose.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "kernels/conv/add_interleaved.h"
#include "kernels/conv/generic_conv.h"
#include "kernels/gemm/panel.h"

namespace parallax::kernels {
namespace {

// The products of one task, [channels * taps, input positions], stay in L2.
constexpr int64_t kColumnBytes = 256 << 10;
constexpr int64_t kMaxChannels = 32;
// B is read in place when few rows of products use it.
constexpr int64_t kDirectRows = 16;

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Input positions i of dimension `d` with i*stride + tap*dilation - pad in [out.begin, out.end).
Range InputOf(const ConvShape& s, int d, int64_t tap, Range out) {
  const int64_t origin = tap * s.dilations[d] - s.pads_begin[d];
  Range r;
  r.begin = std::clamp<int64_t>(-FloorDiv(origin - out.begin, s.strides[d]), 0, s.in[d]);
  r.end = std::clamp<int64_t>(FloorDiv(out.end - 1 - origin, s.strides[d]) + 1, r.begin, s.in[d]);
  return r;
}

// Input rows (first dimension) that some tap brings into the output rows.
Range InputRows(const ConvShape& s, Range out) {
  Range r{.begin = s.in[0], .end = 0};
  for (int64_t tap = 0; tap < s.kernel[0]; ++tap) {
    const Range one = InputOf(s, 0, tap, out);
    if (one.size() == 0) continue;
    r.begin = std::min(r.begin, one.begin);
    r.end = std::max(r.end, one.end);
  }
  r.end = std::max(r.begin, r.end);
  return r;
}

// Most input rows that a task of `rows` output rows can need.
int64_t MaxInputRows(const ConvShape& s, int64_t rows) {
  const int64_t reach = rows - 1 + (s.kernel[0] - 1) * s.dilations[0];
  return std::min(s.in[0], reach / s.strides[0] + 1);
}

int64_t InnerIn(const ConvShape& s) { return s.in[0] == 0 ? 0 : s.InSize() / s.in[0]; }

size_t BufferBytesB(const ConvShape& s) {
  const int64_t depth = std::min(s.in_channels / s.groups, kBlockK);
  return PanelBytesB(depth, kBlockColumns);
}

// products[row, position] = packed[row, :] * X[:, position] for input rows `in`.
void Multiply(const ConvShape& s, const float* packed, int64_t rows, const float* input, Range in,
              float* b_buffer, float* products) {
  const int64_t inner = InnerIn(s), in_group = s.in_channels / s.groups;
  const int64_t positions = in.size() * inner, in_size = s.InSize();
  const float* x = input + in.begin * inner;
  const auto pack = [&](int64_t k0, int64_t kn, int64_t n0, int64_t nn, float* panels) {
    const TileGeometry tile = GetTileGeometry();
    for (int64_t j = 0, columns; j < nn; j += columns, panels += columns * kn) {
      columns = NextPanel(tile, nn - j);
      PackPanelCopy(x + k0 * in_size + n0 + j, in_size, kn, columns, PanelColumns(columns), panels);
    }
  };
  const PackBlock pack_block = pack;
  for (int64_t n = 0; n < positions; n += kBlockColumns) {
    PanelTask t;
    t.rows = rows;
    t.columns = std::min(kBlockColumns, positions - n);
    t.k = in_group;
    t.a = packed;
    t.a_row = in_group;
    t.a_k = 1;
    t.b_buffer = b_buffer;
    if (rows > kDirectRows) {
      t.pack = &pack_block;
      t.pack_n0 = n;
    } else {
      t.b = x + n;
      t.b_k = in_size;
    }
    t.out.c = products + n;
    t.out.ldc = positions;
    RunPanelTask(t);
  }
}

// Adds the products of one output channel, [taps, input positions of rows `in`], to its rows `out`
// of the output plane.
//
// Where the taps along a row are as many as its stride, and none falls outside, they are added together.
void AddTaps(const ConvShape& s, const float* products, Range in, Range out, float* plane) {
  const int last = s.rank - 1;
  const int64_t positions = in.size() * InnerIn(s);
  const int64_t taps = s.KernelSize(), row_taps = s.kernel[last];
  const bool together = last > 0 && row_taps >= kMinInterleaved && row_taps <= kMaxInterleaved &&
                        s.strides[last] == row_taps && s.dilations[last] == 1 &&
                        s.pads_begin[last] == 0 && s.out[last] >= s.in[last] * row_taps;
  const int64_t at_once = together ? row_taps : 1;
  for (int64_t t = 0; t < taps; t += at_once, products += at_once * positions) {
    int64_t tap[kMaxSpatial], at[kMaxSpatial];
    Range range[kMaxSpatial];
    internal::Unravel(t, s.kernel, s.rank, tap);
    bool any = true;
    for (int d = 0; d < s.rank; ++d) {
      range[d] = InputOf(s, d, tap[d], d == 0 ? out : Range{.begin = 0, .end = s.out[d]});
      at[d] = range[d].begin;
      any = any && range[d].size() > 0;
    }
    while (any) {
      int64_t from = 0, to = 0;
      for (int d = 0; d < s.rank; ++d) {
        from = from * s.in[d] + at[d] - (d == 0 ? in.begin : 0);
        to = to * s.out[d] + at[d] * s.strides[d] + tap[d] * s.dilations[d] - s.pads_begin[d];
      }
      const float* x = products + from;
      float* y = plane + to;
      const int64_t n = range[last].size(), stride = s.strides[last];
      if (together) {
        AddInterleaved(x, positions, row_taps, n, y);
      } else if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) y[i] += x[i];
      } else {
        for (int64_t i = 0; i < n; ++i) y[i * stride] += x[i];
      }
      int d = last - 1;
      while (d >= 0 && ++at[d] == range[d].end) {
        at[d] = range[d].begin;
        --d;
      }
      if (d < 0) break;
    }
  }
}

}  // namespace

ConvTransposePlan PlanConvTranspose(const ConvShape& shape) {
  ConvTransposePlan plan;
  plan.shape = shape;
  const ConvShape& s = plan.shape;
  if (s.batch == 0 || s.out_channels == 0 || s.OutSize() == 0) return plan;
  const int64_t out_group = s.out_channels / s.groups, taps = s.KernelSize();
  const auto bytes = [&](int64_t rows, int64_t channels) {
    return channels * taps * MaxInputRows(s, rows) * InnerIn(s) * 4;
  };
  // Whole planes if they fit. Where no two input rows reach the same output row, else blocks of rows:
  // every block of channels reads the input.
  int64_t rows = s.out[0], channels = std::min(out_group, kMaxChannels);
  const int64_t reach = (s.kernel[0] - 1) * s.dilations[0] + 1, stride = s.strides[0];
  while (reach <= stride && rows > stride && bytes(rows, channels) > kColumnBytes) {
    rows = RoundUp(CeilDiv(rows, 2), stride);
  }
  // Else fewer channels, blocks of rows down to eight strides (so that what two blocks both multiply
  // stays small), even fewer channels after that.
  while (channels > 4 && bytes(rows, channels) > kColumnBytes) channels = CeilDiv(channels, 2);
  const int64_t min_rows = 8 * std::max(stride, reach);
  while (rows > min_rows && bytes(rows, channels) > kColumnBytes) rows = CeilDiv(rows, 2);
  while (channels > 1 && bytes(rows, channels) > kColumnBytes) channels = CeilDiv(channels, 2);
  plan.rows_per_task = rows;
  plan.channels_per_task = channels;
  plan.packed_weight_bytes = static_cast<size_t>(RoundUp(s.in_channels * out_group * taps * 4, 64));
  plan.worker_bytes = BufferBytesB(s) + static_cast<size_t>(RoundUp(bytes(rows, channels), 64));
  return plan;
}

void PackConvTransposeWeights(const ConvTransposePlan& plan, const void* weights, void* packed) {
  const ConvShape& s = plan.shape;
  if (plan.packed_weight_bytes == 0) return;
  // [groups, ic, oc*taps] to [groups, oc*taps, ic].
  const int64_t in_group = s.in_channels / s.groups;
  const int64_t rows = s.out_channels / s.groups * s.KernelSize();
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t at = g * in_group * rows;
    PackPanelTranspose(static_cast<const std::byte*>(weights) + at * 4, rows, rows, in_group,
                       in_group, static_cast<float*>(packed) + at);
  }
}

size_t ConvTransposeWorkspaceBytes(const ConvTransposePlan& plan, int team_size) {
  return plan.worker_bytes * static_cast<size_t>(team_size);
}

void ConvTranspose(const ConvTransposePlan& plan, const float* input, const void* packed,
                   const float* bias, const Epilogue& epilogue, float* output, void* workspace,
                   Team& team) {
  const ConvShape& s = plan.shape;
  if (plan.rows_per_task == 0) return;
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  const int64_t taps = s.KernelSize(), out_size = s.OutSize();
  const int64_t row_size = out_size / s.out[0];
  const int64_t row_tasks = CeilDiv(s.out[0], plan.rows_per_task);
  const int64_t channel_tasks = CeilDiv(out_group, plan.channels_per_task);
  const bool clamp = epilogue.clamps();
  const float lo = epilogue.low(), hi = epilogue.high();
  const float* residual = epilogue.first_residual();

  team.Run(s.batch * s.groups * channel_tasks * row_tasks, [&](int64_t task, int worker) {
    const int64_t row_task = task % row_tasks;
    const int64_t channel_task = task / row_tasks % channel_tasks;
    const int64_t group = task / (row_tasks * channel_tasks) % s.groups;
    const int64_t image = task / (row_tasks * channel_tasks * s.groups);
    const Range out{.begin = row_task * plan.rows_per_task,
                    .end = std::min((row_task + 1) * plan.rows_per_task, s.out[0])};
    const Range in = InputRows(s, out);
    const int64_t first = channel_task * plan.channels_per_task;
    const int64_t channels = std::min(plan.channels_per_task, out_group - first);
    std::byte* slice =
        static_cast<std::byte*>(workspace) + plan.worker_bytes * static_cast<size_t>(worker);
    auto* products = reinterpret_cast<float*>(slice + BufferBytesB(s));
    const int64_t positions = in.size() * InnerIn(s);
    if (positions > 0 && in_group > 0) {
      Multiply(s, static_cast<const float*>(packed) + (group * out_group + first) * taps * in_group,
               channels * taps, input + (image * s.in_channels + group * in_group) * s.InSize(), in,
               reinterpret_cast<float*>(slice), products);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t oc = group * out_group + first + c;
      const int64_t at = (image * s.out_channels + oc) * out_size;
      float* plane = output + at;
      const int64_t begin = out.begin * row_size, end = out.end * row_size;
      const float start = bias != nullptr ? bias[oc] : 0.0f;
      if (residual != nullptr) {
        for (int64_t i = begin; i < end; ++i) plane[i] = residual[at + i] + start;
      } else {
        for (int64_t i = begin; i < end; ++i) plane[i] = start;
      }
      if (positions > 0 && in_group > 0)
        AddTaps(s, products + c * taps * positions, in, out, plane);
      for (int64_t i = begin; clamp && i < end; ++i) {
        plane[i] = plane[i] < lo ? lo : plane[i];
        plane[i] = plane[i] > hi ? hi : plane[i];
      }
      const float* last = epilogue.residual_last ? epilogue.residual : nullptr;
      FinishBlock(epilogue, plane + begin, last != nullptr ? last + at + begin : nullptr, 1,
                  end - begin, end - begin);
    }
  });
}

}  // namespace parallax::kernels
