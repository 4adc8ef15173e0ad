#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/gemm/panel.h"

namespace parallax::kernels {
namespace {

// Products summed before C is stored: channels of the block times taps. A's panel of that depth,
// 8 * 512 * 4 = 16 KB, shares L1 with the rows of the patches that one panel of columns reads.
constexpr int64_t kBlockDepth = 512;
// Patches of one block of channels stay in L2.
constexpr int64_t kPatchBytes = 192 << 10;
// Columns of one task: several tiles wide, and not many times more.
constexpr int64_t kMinPositions = 144;
constexpr int64_t kMaxPositions = 1536;
// As in gemm.cc: a task of fewer multiply-adds is not worth a thread.
constexpr double kMinTaskMacs = 1 << 16;
constexpr int64_t kMaxTasks = 64;
constexpr int64_t kMinChannels = 64;

// Rows of A that its panels occupy.
int64_t PanelRows(int64_t m, const TileGeometry& tile) {
  const int64_t tail = m % tile.rows;
  return m - tail + (tail != 0 ? PanelHeight(tail) : 0);
}

struct Blocks {
  int64_t in_group = 0, out_group = 0, taps = 0;
  int64_t count = 0;  // of input channels
  int64_t rows = 0;   // panel rows of a group

  explicit Blocks(const ConvPlan& plan)
      : in_group(plan.shape.in_channels / plan.shape.groups),
        out_group(plan.shape.out_channels / plan.shape.groups),
        taps(plan.shape.KernelSize()),
        count(CeilDiv(in_group, plan.in_channel_block)),
        rows(PanelRows(out_group, GetTileGeometry())) {}
  // Floats before block `block` of group `group`.
  int64_t Offset(const ConvPlan& plan, int64_t group, int64_t block) const {
    return (group * in_group + block * plan.in_channel_block) * taps * rows;
  }
};

int64_t BufferFloats(const PatchLayout& layout, int64_t channels) {
  // The last vectors of the last channel read past its end.
  return channels * layout.channel_size + GetTileGeometry().columns;
}

// Runs of a panel of `columns` positions from p on, split where rows end.
int64_t SplitRuns(const PatchLayout& layout, const PatchBlock& block, int64_t p, int64_t columns,
                  int64_t out_width, ColumnRun* runs) {
  int64_t count = 0;
  for (int64_t at = p; at < p + columns;) {
    const int64_t row = at / layout.pitch, column = at % layout.pitch;
    const int64_t length = std::min(block.columns - column, p + columns - at);
    if (length > 0) {
      runs[count++] = {.column = at - p, .c_offset = row * out_width + column, .length = length};
    }
    at += layout.pitch - column;
  }
  return count;
}

// All positions of the block against all output channels of the task, for one block of k.
// `panel` has everything but b, columns, c and the residual, which lie at the block's first
// element.
void RunBlock(const PatchLayout& layout, const PatchBlock& block, const float* patches,
              const float* residual, float* out, PanelArgs panel) {
  const TileGeometry tile = GetTileGeometry();
  const int64_t out_width = layout.axes.columns.out;
  // Whole rows as one line of positions waste the gaps between rows; each row for itself wastes the
  // rest of its last vector. Runs in a panel: at most one a position.
  const bool line = layout.pitch < RoundUp(block.columns, tile.lanes);
  const int64_t lines = line ? 1 : block.rows;
  const int64_t length = line ? layout.Positions(block.rows, block.columns) : block.columns;
  ColumnRun runs[3 * 64];
  for (int64_t i = 0; i < lines; ++i) {
    for (int64_t n = 0; n < length; n += tile.columns) {
      panel.columns = std::min(tile.columns, length - n);
      panel.tile.b = patches + i * layout.pitch + n;
      int64_t offset = i * out_width + n;
      if (line) {
        panel.run_count = SplitRuns(layout, block, n, panel.columns, out_width, runs);
        if (panel.run_count == 0) continue;
        // One whole run is an ordinary panel.
        const bool ordinary = panel.run_count == 1 && runs[0].length == panel.columns;
        offset = ordinary ? runs[0].c_offset : 0;
        panel.runs = ordinary ? nullptr : runs;
      }
      panel.tile.c = out + offset;
      panel.tile.residual = residual != nullptr ? residual + offset : nullptr;
      RunPanel(panel);
    }
  }
}

}  // namespace

void PlanImplicit(ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  const TileGeometry tile = GetTileGeometry();
  const ConvAxes axes = MakeAxes(s);
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  const int64_t taps = s.KernelSize();
  const int64_t blocks = CeilDiv(in_group, std::max<int64_t>(1, kBlockDepth / taps));
  plan.in_channel_block = std::max<int64_t>(1, CeilDiv(in_group, std::max<int64_t>(1, blocks)));

  const double macs = static_cast<double>(s.batch * s.OutSize()) *
                      static_cast<double>(s.out_channels) * static_cast<double>(in_group * taps);
  const auto want = std::clamp<int64_t>(static_cast<int64_t>(macs / kMinTaskMacs), 1, kMaxTasks);
  const int64_t outer = s.batch * s.groups * axes.depth.out;

  plan.columns_per_task =
      axes.columns.out <= kMaxPositions
          ? axes.columns.out
          : RoundUp(CeilDiv(axes.columns.out, CeilDiv(axes.columns.out, kMaxPositions)),
                    tile.columns);
  const int64_t column_tasks = CeilDiv(axes.columns.out, plan.columns_per_task);
  // As few rows as give enough tasks, but wide enough to fill tiles, and patches that fit.
  const int64_t pitch = plan.columns_per_task + axes.columns.max_shift;
  const int64_t row_tasks = CeilDiv(want, outer * column_tasks);
  int64_t rows = std::max(CeilDiv(axes.rows.out, row_tasks), CeilDiv(kMinPositions, pitch));
  rows = std::min({rows, axes.rows.out, std::max<int64_t>(1, kMaxPositions / pitch)});
  while (rows > 1 &&
         PatchLayout(axes, rows, plan.columns_per_task).channel_size * plan.in_channel_block * 4 >
             kPatchBytes) {
    --rows;
  }
  plan.rows_per_task = CeilDiv(axes.rows.out, CeilDiv(axes.rows.out, rows));
  const int64_t spatial_tasks = outer * column_tasks * CeilDiv(axes.rows.out, plan.rows_per_task);
  const int64_t channel_tasks = std::clamp<int64_t>(CeilDiv(want, spatial_tasks), 1,
                                                    std::max<int64_t>(1, out_group / kMinChannels));
  plan.channels_per_task = RoundUp(CeilDiv(out_group, channel_tasks), tile.rows);

  const PatchLayout layout(axes, plan.rows_per_task, plan.columns_per_task);
  plan.worker_bytes =
      static_cast<size_t>(RoundUp(BufferFloats(layout, plan.in_channel_block) * 4, 64));
  plan.packed_weight_bytes =
      static_cast<size_t>(RoundUp(s.groups * in_group * taps * PanelRows(out_group, tile) * 4, 64));
}

void PackImplicit(const ConvPlan& plan, const void* weights, float* packed) {
  const ConvShape& s = plan.shape;
  const TileGeometry tile = GetTileGeometry();
  const Blocks b(plan);
  const auto* source = static_cast<const std::byte*>(weights);
  for (int64_t group = 0; group < s.groups; ++group) {
    for (int64_t block = 0; block < b.count; ++block) {
      const int64_t first = block * plan.in_channel_block;
      const int64_t channels = std::min(plan.in_channel_block, b.in_group - first);
      float* panel = packed + b.Offset(plan, group, block);
      for (int64_t m = 0; m < b.out_group; m += tile.rows) {
        const int64_t rows = std::min(tile.rows, b.out_group - m);
        const int64_t height = PanelHeight(rows);
        for (int64_t r = 0; r < height; ++r) {
          for (int64_t c = 0; c < channels; ++c) {
            for (int64_t t = 0; t < b.taps; ++t) {
              float value = 0.0f;
              if (r < rows) {
                const int64_t oc = group * b.out_group + m + r;
                memcpy(&value, source + ((oc * b.in_group + first + c) * b.taps + t) * 4, 4);
              }
              panel[(t * channels + c) * height + r] = value;
            }
          }
        }
        panel += height * channels * b.taps;
      }
    }
  }
}

void RunImplicit(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  const Blocks b(plan);
  const PatchLayout layout(MakeAxes(s), plan.rows_per_task, plan.columns_per_task);
  const ConvAxes& axes = layout.axes;
  int64_t tap_offsets[kMaxTaps];
  layout.TapOffsets(tap_offsets);
  const int64_t in_size = s.InSize(), out_size = s.OutSize();
  const int64_t out_plane = axes.rows.out * axes.columns.out;
  const int64_t row_tasks = CeilDiv(axes.rows.out, plan.rows_per_task);
  const int64_t column_tasks = CeilDiv(axes.columns.out, plan.columns_per_task);
  const int64_t channel_tasks = CeilDiv(b.out_group, plan.channels_per_task);

  team.Run(
      s.batch * s.groups * axes.depth.out * row_tasks * column_tasks * channel_tasks,
      [&](int64_t task, int worker) {
        const int64_t at[6] = {s.batch,   s.groups,     axes.depth.out,
                               row_tasks, column_tasks, channel_tasks};
        int64_t i[6];
        for (int a = 5; a >= 0; --a) {
          i[a] = task % at[a];
          task /= at[a];
        }
        PatchBlock block{.depth = i[2],
                         .row = i[3] * plan.rows_per_task,
                         .column = i[4] * plan.columns_per_task};
        block.rows = std::min(plan.rows_per_task, axes.rows.out - block.row);
        block.columns = std::min(plan.columns_per_task, axes.columns.out - block.column);
        const int64_t m0 = i[5] * plan.channels_per_task;
        const int64_t oc = i[1] * b.out_group + m0;
        auto* patches = reinterpret_cast<float*>(args.workspace +
                                                 plan.worker_bytes * static_cast<size_t>(worker));

        PanelArgs panel;
        panel.rows = std::min(plan.channels_per_task, b.out_group - m0);
        panel.tile.taps = b.taps;
        panel.tile.tap_offsets = tap_offsets;
        panel.tile.b_k = layout.channel_size;
        panel.tile.ldc = out_size;
        panel.tile.row_bias = args.bias != nullptr ? args.bias + oc : nullptr;
        panel.tile.lo = args.lo();
        panel.tile.hi = args.hi();
        const int64_t out_offset = (i[0] * s.out_channels + oc) * out_size +
                                   block.depth * out_plane + block.row * axes.columns.out +
                                   block.column;
        const float* residual =
            args.epilogue.residual != nullptr ? args.epilogue.residual + out_offset : nullptr;
        for (int64_t k = 0; k < std::max<int64_t>(1, b.count); ++k) {
          const int64_t first = k * plan.in_channel_block;
          const int64_t channels = std::min(plan.in_channel_block, b.in_group - first);
          CopyPatches(layout, block,
                      args.input + (i[0] * s.in_channels + i[1] * b.in_group + first) * in_size,
                      channels, in_size, 0.0f, patches);
          panel.tile.k = channels;
          panel.tile.accumulate = k > 0;
          panel.tile.clamp = args.clamps() && k + 1 >= b.count;
          panel.a_panel_k = channels * b.taps;
          panel.tile.a = args.packed + b.Offset(plan, i[1], k) + m0 * panel.a_panel_k;
          RunBlock(layout, block, patches, residual, args.output + out_offset, panel);
        }
      });
}

}  // namespace parallax::kernels
