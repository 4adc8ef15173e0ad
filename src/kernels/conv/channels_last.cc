// Channels-last convolution as a matrix product: rows are output positions, the depth is (tap,
// input channel), columns are output channels.
//
// No patch matrix is written where a tap's channels are many: the register tile reads each position's
// channels where they lie, through one pointer a position and tap ("indirect"); padding points to
// zeros. Where they are few (an image's three), a block of rows is gathered first.
//
// Taps along a row read neighbouring pixels, which with one group and no dilation are one stretch of
// memory in the order of the sum: they count as one tap of kernel-width times as many channels. A window
// that reaches past an end of its row is copied, with zeros around.
//
// Joined: the input channels lie in several pictures. Each tap is then cut into as many as there are
// pieces of the channels that all parts are multiples of, whose pointers lead into their part.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/gemm/panel.h"

namespace parallax::kernels {
namespace {

// Depth of one block of the sum: a panel of weights of that depth stays in L1 or streams from L2.
constexpr int64_t kBlockDepth = 384;
// Below this many channels the per-tap work of a tile costs more than gathering.
constexpr int64_t kMinIndirectChannels = 8;
constexpr double kMinTaskMacs = 1 << 16;
constexpr int64_t kMaxTasks = 64;
constexpr int64_t kFewestInside = 4;  // outputs of a row for each window that has to be copied
// Rows of a block: where the weights stay in L2 and are several panels, few, whose inputs stay in L1
// from one panel to the next; else many, since each block reads all the weights.
constexpr int64_t kNearWeightBytes = 320 << 10;
constexpr int64_t kFewRows = 32;
constexpr int64_t kRowsAtOnce = 96;  // of pointers; whole tiles of 6 and 8

}  // namespace

bool GathersInput(const ConvShape& s) {
  return s.layout == ConvLayout::kFirstToLast || s.in_channels / s.groups < kMinIndirectChannels;
}

namespace {

// Outputs of a row whose windows reach past its left end, and past any.
int64_t LeftEdges(const ConvAxis& w) {
  return w.pad <= 0 ? 0 : std::min(CeilDiv(w.pad, w.stride), w.out);
}
int64_t Edges(const ConvAxis& w) {
  const int64_t room =
      w.in + w.pad - w.kernel;  // of the last window inside; columns are not dilated
  const int64_t inside = room < 0 ? 0 : room / w.stride + 1;
  return LeftEdges(w) + std::max<int64_t>(0, w.out - inside);
}
// Whether copying them costs little beside what one tap a row saves.
bool FewEdges(const ConvAxis& w) {
  return w.kernel > 1 && w.dilation == 1 && Edges(w) * kFewestInside <= w.out;
}

struct Geometry {
  ConvAxes axes;
  int64_t in_group, out_group, taps, depth;  // in_group: of one tap
  int64_t positions;                         // of all images
  bool planar;                               // the input has channels first
  bool joined, gathers;
  int64_t rows_at_once = kRowsAtOnce;
  int64_t row_taps = 1;  // kernel columns that are one tap
  int64_t pieces = 1;    // of the channels

  explicit Geometry(const ConvShape& s)
      : axes(MakeAxes(s)),
        in_group(s.in_channels / s.groups),
        out_group(s.out_channels / s.groups),
        taps(s.KernelSize()),
        depth(taps * in_group),
        positions(s.batch * s.OutSize()),
        planar(s.layout == ConvLayout::kFirstToLast),
        joined(s.source_count > 1),
        gathers(!joined && GathersInput(s)) {
    if (out_group > 2 * GetTileGeometry().columns && depth * out_group * 4 <= kNearWeightBytes) {
      rows_at_once = kFewRows;
    }
    if (axes.columns.in == 1 && axes.columns.out == 1 && axes.columns.kernel == 1) {
      std::swap(axes.columns, axes.rows);  // a sequence, stored as a picture of one column
    }
    if (!joined && !gathers && s.groups == 1 && s.InPixel() == in_group && FewEdges(axes.columns)) {
      row_taps = axes.columns.kernel;
      in_group *= row_taps;
      taps /= row_taps;
    }
    if (!joined) return;
    in_group = 0;
    for (int i = 0; i < s.source_count; ++i) in_group = std::gcd(in_group, s.sources[i].channels);
    pieces = s.in_channels / in_group;
    taps *= pieces;
  }
};

// Calls row(k, at, count, ow, image, in) for each row of the kernel and each run of `count` rows of the
// block, from row `at` on, whose outputs are neighbours from column `ow` on: kernel row k reads input
// row `in` of that image for them, or padding where `in` is -1.
template <class F>
void ForEachInputRow(const Geometry& g, int64_t begin, int64_t rows, F row) {
  const ConvAxis &d = g.axes.depth, &h = g.axes.rows, &w = g.axes.columns;
  for (int64_t at = 0; at < rows;) {
    const int64_t position = begin + at;
    const int64_t ow = position % w.out, oh = position / w.out % h.out;
    const int64_t od = position / (w.out * h.out) % d.out;
    const int64_t image = position / (w.out * h.out * d.out);
    const int64_t count = std::min(rows - at, w.out - ow);
    for (int64_t kd = 0; kd < d.kernel; ++kd) {
      const int64_t id = od * d.stride + kd * d.dilation - d.pad;
      for (int64_t kh = 0; kh < h.kernel; ++kh) {
        const int64_t ih = oh * h.stride + kh * h.dilation - h.pad;
        const bool inside = id >= 0 && id < d.in && ih >= 0 && ih < h.in;
        row(kd * h.kernel + kh, at, count, ow, image, inside ? id * h.in + ih : int64_t{-1});
      }
    }
    at += count;
  }
}

// Calls tap(t, first, count, image, at) for runs of `count` rows of the block from row `first` on
// whose input for tap t starts at position `at` of that image and goes on a stride further each; at is
// -1 where padding lies.
template <class F>
void ForEachRun(const Geometry& g, int64_t begin, int64_t rows, F tap) {
  const ConvAxis& w = g.axes.columns;
  ForEachInputRow(g, begin, rows,
                  [&](int64_t k, int64_t at, int64_t count, int64_t ow, int64_t image, int64_t in) {
                    for (int64_t kw = 0; kw < w.kernel; ++kw) {
                      const int64_t t = k * w.kernel + kw;
                      const int64_t first = ow * w.stride + kw * w.dilation - w.pad;
                      // Columns [lo, hi) of the run lie in the input.
                      int64_t lo = first >= 0 ? 0 : std::min(CeilDiv(-first, w.stride), count);
                      int64_t hi =
                          first >= w.in ? 0 : std::min(CeilDiv(w.in - first, w.stride), count);
                      if (in < 0 || hi < lo) lo = hi = 0;
                      if (lo > 0) tap(t, at, lo, image, int64_t{-1});
                      if (hi > lo)
                        tap(t, at + lo, hi - lo, image, in * w.in + first + lo * w.stride);
                      if (hi < count) tap(t, at + hi, count - hi, image, int64_t{-1});
                    }
                  });
}

int64_t PointerBytes(const Geometry& g) {
  return RoundUp(kRowsAtOnce * g.taps * static_cast<int64_t>(sizeof(float*)), 64);
}

// The zeros of padding and the copied windows of a block.
int64_t FloatBytes(const Geometry& g) {
  if (g.gathers) return RoundUp(kRowsAtOnce * g.depth * 4, 64);
  int64_t stretches = 1;
  if (g.row_taps > 1) {
    // Rows that a block of kRowsAtOnce can touch, each with its edges.
    const int64_t rows = (kRowsAtOnce - 1) / std::max<int64_t>(1, g.axes.columns.out) + 2;
    stretches += std::min(kRowsAtOnce, rows * Edges(g.axes.columns)) * g.taps;
  }
  return RoundUp(stretches * g.in_group * 4, 64);
}

}  // namespace

void PlanChannelsLast(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const Geometry g(s);
  const TileGeometry tile = GetTileGeometry();
  const double macs = static_cast<double>(g.positions) * static_cast<double>(s.out_channels) *
                      static_cast<double>(g.depth);
  const auto want = std::clamp<int64_t>(static_cast<int64_t>(macs / kMinTaskMacs), 1, kMaxTasks);
  // Every task reads the weights of its columns: more of them rather than fewer rows than go at once.
  const int64_t row_blocks = std::clamp<int64_t>(
      CeilDiv(want, s.groups), 1, std::max<int64_t>(1, CeilDiv(g.positions, g.rows_at_once)));
  plan.row_tasks = std::min(row_blocks, std::max<int64_t>(1, CeilDiv(g.positions, tile.rows)));
  plan.channel_cuts =
      CutPanels(tile, g.out_group, std::max<int64_t>(1, want / (plan.row_tasks * s.groups)));
  plan.packed_weight_bytes = static_cast<size_t>(s.groups) * PanelBytesB(g.depth, g.out_group);
  plan.worker_bytes = static_cast<size_t>((g.gathers ? 0 : PointerBytes(g)) + FloatBytes(g));
}

void PackChannelsLast(const ConvPlan& plan, const void* weights, float* packed) {
  const ConvShape& s = plan.shape;
  const Geometry g(s);
  const TileGeometry tile = GetTileGeometry();
  const int64_t channels = s.in_channels / s.groups, taps = s.KernelSize();
  const auto* bytes = static_cast<const std::byte*>(weights);
  for (int64_t group = 0; group < s.groups; ++group) {
    float* to = packed + group * static_cast<int64_t>(PanelBytesB(g.depth, g.out_group) / 4);
    for (int64_t first = 0, columns; first < g.out_group; first += columns) {
      columns = NextPanel(tile, g.out_group - first);
      const int64_t panel_width = PanelColumns(columns);
      float* panel = to + first * g.depth;
      for (int64_t j = 0; j < panel_width; ++j) {
        const std::byte* from = bytes + (group * g.out_group + first + j) * g.depth * 4;
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t t = 0; t < taps; ++t) {
            float w = 0;
            if (j < columns) std::memcpy(&w, from + (c * taps + t) * 4, sizeof w);
            panel[(t * channels + c) * panel_width + j] = w;
          }
        }
      }
    }
  }
}

namespace {

// One block of at most kRowsAtOnce rows against the task's columns.
struct Block {
  int64_t begin = 0, rows = 0;     // positions
  int64_t first = 0, columns = 0;  // output channels of the group
  const float* weights = nullptr;  // of the group
  const float* const* a_rows = nullptr;
  const float* gathered = nullptr;  // [depth][kRowsAtOnce]
  TileArgs out;                     // c, residual, bias at the block's first element
};

void RunBlock(const Geometry& g, const Block& block) {
  const TileGeometry tile = GetTileGeometry();
  // Whole taps together, or a part of one.
  const int64_t channel_blocks = g.gathers ? 1 : CeilDiv(g.in_group, kBlockDepth);
  // No channel at all is one block of depth 0: the epilogue alone.
  const int64_t all_channels = std::max<int64_t>(1, g.in_group);
  const int64_t channels = CeilDiv(all_channels, channel_blocks);
  const int64_t taps = g.gathers ? g.taps
                       : channel_blocks > 1
                           ? 1
                           : std::min(g.taps, std::max<int64_t>(1, kBlockDepth / g.in_group));
  PanelArgs p;
  p.rows = block.rows;
  for (int64_t tap = 0; tap < g.taps; tap += taps) {
    for (int64_t c = 0; c < all_channels; c += channels) {
      p.tile = block.out;
      p.tile.accumulate = tap > 0 || c > 0;
      p.tile.clamp = block.out.clamp && tap + taps >= g.taps && c + channels >= all_channels;
      if (g.gathers) {
        p.tile.a = block.gathered;
        p.tile.a_row = 1;
        p.tile.k = g.depth;
      } else {
        p.tile.a_rows = block.a_rows + tap * kRowsAtOnce;
        p.tile.a_tap = kRowsAtOnce;
        p.tile.a_offset = c;
        p.tile.taps = std::min(taps, g.taps - tap);
        p.tile.k = std::min(channels, g.in_group - c);
      }
      p.tile.a_k = g.gathers ? kRowsAtOnce : 1;
      for (int64_t n = 0; n < block.columns; n += p.columns) {
        p.columns = NextPanel(tile, g.out_group - block.first - n);
        p.tile.b_k = PanelColumns(p.columns);
        p.tile.b =
            block.weights + (block.first + n) * g.depth + (tap * g.in_group + c) * p.tile.b_k;
        p.tile.c = block.out.c + n;
        if (block.out.residual != nullptr) p.tile.residual = block.out.residual + n;
        if (block.out.column_bias != nullptr) p.tile.column_bias = block.out.column_bias + n;
        RunPanel(p);
      }
    }
  }
}

// The block's inputs as [depth][row], depth in the order (tap, channel).
void Gather(const ConvShape& s, const Geometry& g, const float* input, int64_t group,
            const Block& block, float* to) {
  const int64_t size = s.InSize(), stride = g.axes.columns.stride;
  ForEachRun(g, block.begin, block.rows,
             [&](int64_t t, int64_t first, int64_t count, int64_t image, int64_t from) {
               for (int64_t c = 0; c < g.in_group; ++c) {
                 float* row = to + (t * g.in_group + c) * kRowsAtOnce + first;
                 const int64_t channel = group * g.in_group + c;
                 if (from < 0) {
                   std::fill_n(row, count, 0.0f);
                 } else if (g.planar) {
                   CopyStrided(input + (image * s.in_channels + channel) * size + from, stride,
                               count, row);
                 } else {
                   CopyStrided(input + (image * size + from) * s.InPixel() + channel,
                               stride * s.InPixel(), count, row);
                 }
               }
             });
}

// Where the rows of a block find their input, pointers[tap * kRowsAtOnce + row], where a tap is a whole
// row of the kernel. Windows that reach past an end of their row are copied behind the zeros.
void PointToRows(const ConvShape& s, const Geometry& g, const float* input, float* floats,
                 const Block& block, const float** pointers) {
  const ConvAxis &d = g.axes.depth, &h = g.axes.rows, &w = g.axes.columns;
  const int64_t channels = s.in_channels, left = LeftEdges(w);
  const int64_t inside_end = std::max(left, w.out - (Edges(w) - left));
  float* copy = floats + g.in_group;
  ForEachInputRow(g, block.begin, block.rows,
                  [&](int64_t k, int64_t at, int64_t count, int64_t ow, int64_t image, int64_t in) {
                    const float** to = pointers + k * kRowsAtOnce + at;
                    if (in < 0) {
                      std::fill_n(to, count, floats);
                      return;
                    }
                    const float* row = input + (image * d.in * h.in + in) * w.in * channels;
                    for (int64_t i = 0; i < count; ++i) {
                      const int64_t first = (ow + i) * w.stride - w.pad;
                      if (ow + i >= left && ow + i < inside_end) {
                        to[i] = row + first * channels;
                        continue;
                      }
                      const int64_t lo = std::clamp<int64_t>(-first, 0, w.kernel);
                      const int64_t hi = std::clamp<int64_t>(w.in - first, lo, w.kernel);
                      std::fill_n(copy, lo * channels, 0.0f);
                      if (hi > lo) {
                        std::copy_n(row + (first + lo) * channels, (hi - lo) * channels,
                                    copy + lo * channels);
                      }
                      std::fill_n(copy + hi * channels, (w.kernel - hi) * channels, 0.0f);
                      to[i] = copy;
                      copy += g.in_group;
                    }
                  });
}

// The same for any taps, of the channels of `group`: all pieces of a tap, then those of the next.
void PointToTaps(const ConvShape& s, const Geometry& g, const float* const* inputs, int64_t group,
                 const float* zeros, const Block& block, const float** pointers) {
  const int64_t stride = g.axes.columns.stride;
  ForEachRun(g, block.begin, block.rows,
             [&](int64_t t, int64_t first, int64_t count, int64_t image, int64_t from) {
               const float** to = pointers + t * g.pieces * kRowsAtOnce + first;
               for (int i = 0; i < s.source_count; ++i) {
                 const ConvSource& part = s.sources[i];
                 const int64_t at = (image * s.InSize() + from) * part.pixel + part.first;
                 const int64_t channels = part.channels / s.groups;
                 for (int64_t c = 0; c < channels; c += g.in_group, to += kRowsAtOnce) {
                   if (from < 0) {
                     std::fill_n(to, count, zeros);
                     continue;
                   }
                   const float* source = inputs[i] + at + group * channels + c;
                   for (int64_t r = 0; r < count; ++r) to[r] = source + r * stride * part.pixel;
                 }
               }
             });
}

}  // namespace

void RunChannelsLast(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  const Geometry g(s);
  const auto column_tasks = static_cast<int64_t>(plan.channel_cuts.size()) - 1;
  const TileGeometry tile = GetTileGeometry();
  const float* residual = args.epilogue.first_residual();
  // Rows outermost: a worker's share of the tasks is then a part of the picture, in this operator and
  // in the next, and what the next reads is in its own cache.
  team.Run(plan.row_tasks * column_tasks * s.groups, [&](int64_t task, int worker) {
    const int64_t row_task = task / (column_tasks * s.groups);
    const int64_t group = task / column_tasks % s.groups;
    Block block;
    const auto cut = plan.channel_cuts.begin() + task % column_tasks;
    block.first = cut[0];
    block.columns = cut[1] - cut[0];
    block.weights =
        args.packed + group * static_cast<int64_t>(PanelBytesB(g.depth, g.out_group) / 4);
    const int64_t channel = group * g.out_group + block.first;
    std::byte* slice = args.workspace + plan.worker_bytes * static_cast<size_t>(worker);
    auto** pointers = reinterpret_cast<const float**>(slice);
    auto* floats = reinterpret_cast<float*>(g.gathers ? slice : slice + PointerBytes(g));
    if (!g.gathers) std::fill_n(floats, g.in_group, 0.0f);
    block.a_rows = pointers;
    block.gathered = floats;
    const int64_t begin = CutRows(tile, g.positions, plan.row_tasks, row_task);
    const int64_t end = CutRows(tile, g.positions, plan.row_tasks, row_task + 1);
    // Blocks of equal size: each reads all the weights.
    const int64_t step =
        RoundUp(CeilDiv(end - begin, CeilDiv(end - begin, g.rows_at_once)), tile.rows);
    for (block.begin = begin; block.begin < end; block.begin += step) {
      block.rows = std::min(step, end - block.begin);
      if (g.gathers) {
        Gather(s, g, args.input, group, block, floats);
      } else if (g.row_taps > 1) {
        PointToRows(s, g, args.input, floats, block, pointers);
      } else {
        PointToTaps(s, g, args.inputs, group, floats, block, pointers);
      }
      const int64_t at = block.begin * s.out_channels + channel;
      block.out = {};
      block.out.c = args.output + at;
      block.out.ldc = s.out_channels;
      block.out.clamp = args.clamps();
      block.out.lo = args.lo();
      block.out.hi = args.hi();
      block.out.column_bias = args.bias != nullptr ? args.bias + channel : nullptr;
      block.out.residual = residual != nullptr ? residual + at : nullptr;
      RunBlock(g, block);
      FinishBlock(args.epilogue, block.out.c,
                  args.epilogue.residual != nullptr ? args.epilogue.residual + at : nullptr,
                  block.rows, block.columns, s.out_channels);
    }
  });
}

}  // namespace parallax::kernels
