// 3x3 convolution with stride 1 by Winograd's minimal filtering, channels last.
//
// The output is cut into tiles of m x m (m = 4 or 2). A tile needs (m+2) x (m+2) inputs; both are
// transformed so that the convolution becomes one product a transformed position ("point"): m = 4
// takes 36 multiplications for 16 outputs where the formula takes 144. Transforms run over channels,
// one vector at a time; the products of one point over many tiles are a matrix product
// [tiles x channels in] [channels in x channels out].
//
// Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015: F(2x2,3x3)
// and F(4x4,3x3), interpolation points 0, 1, -1 and for m = 4 also 2, -2.
#include <algorithm>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/conv/winograd_tiles.h"
#include "kernels/gemm/panel.h"

namespace parallax::kernels {
namespace {

// The transformed inputs and products of one task stay in L2 (of 1 MB; half as much is common on
// small machines, where L3 or the system cache takes the rest).
constexpr int64_t kTaskBytes = 512 << 10;
constexpr int64_t kMaxTiles = 64;

struct Geometry {
  int64_t m, points;             // outputs along a side of a tile; transformed positions
  int64_t rows, columns, tiles;  // of tiles: of an image, and all of them
  int64_t in_pitch;              // floats of one tile's transformed input at one point
  int64_t width;                 // of a panel of output channels; the last one may be narrower

  explicit Geometry(const ConvPlan& plan)
      : m(plan.algorithm == ConvAlgorithm::kWinograd4 ? 4 : 2),
        points((m + 2) * (m + 2)),
        rows(CeilDiv(plan.shape.out[0], m)),
        columns(CeilDiv(plan.shape.out[1], m)),
        tiles(plan.shape.batch * rows * columns),
        in_pitch(RoundUp(plan.shape.in_channels, GetTileGeometry().lanes)),
        width(EvenPanelColumns(plan.shape.out_channels, kWinogradVectors)) {}
  // Floats from point to point. One cache line more than the data: points a multiple of 4 KB apart
  // would all fall into the same set of L1.
  int64_t PointStride(int64_t tiles_of_task, int64_t pitch) const {
    return RoundUp(tiles_of_task * pitch, 16) + 16;
  }
  int64_t InputFloats(int64_t tiles_of_task) const {
    return points * PointStride(tiles_of_task, in_pitch);
  }
  int64_t ProductFloats(int64_t tiles_of_task) const {
    return points * PointStride(tiles_of_task, width);
  }
};

// Where tile `tile` lies.
struct TilePlace {
  int64_t image, row, column;  // row and column of its first output
};
TilePlace PlaceOf(const Geometry& g, int64_t tile) {
  const int64_t in_image = tile % (g.rows * g.columns);
  return {tile / (g.rows * g.columns), in_image / g.columns * g.m, in_image % g.columns * g.m};
}

// Of the channels of one source, which `v` and `input` begin at.
void TransformInput(const ConvPlan& plan, const Geometry& g, const float* input, int64_t pixel,
                    int64_t channels, int64_t tile, int64_t slot, int64_t slots, float* v) {
  const ConvShape& s = plan.shape;
  const TilePlace place = PlaceOf(g, tile);
  const int64_t row = place.row - s.pads_begin[0], column = place.column - s.pads_begin[1];
  const int64_t side = g.m + 2;
  WinogradInput in;
  in.column = pixel;
  in.row = s.in[1] * in.column;
  in.channels = channels;
  // Only what lies in the input is read: before its first row the address is just a number.
  in.x = input;
  if (s.InSize() > 0) {
    in.x += (place.image * s.in[0] + row) * in.row + column * in.column;
  }
  in.row_begin = std::clamp<int64_t>(-row, 0, side);
  in.row_end = std::clamp<int64_t>(s.in[0] - row, 0, side);
  in.column_begin = std::clamp<int64_t>(-column, 0, side);
  in.column_end = std::clamp<int64_t>(s.in[1] - column, 0, side);
  in.point = g.PointStride(slots, g.in_pitch);
  in.v = v + slot * g.in_pitch;
  WinogradInputTile(g.m, in);
}

// The products of every point for one panel of output channels from `first` on.
void Multiply(const ConvPlan& plan, const Geometry& g, const float* packed, const float* v,
              int64_t tiles, int64_t first, int64_t width, float* products) {
  WinogradProducts p;
  p.v = v;
  p.u = packed + first * plan.shape.in_channels * g.points;
  p.m = products;
  p.points = g.points;
  p.tiles = tiles;
  p.depth = plan.shape.in_channels;
  p.width = width;
  p.v_row = g.in_pitch;
  p.v_point = g.PointStride(tiles, g.in_pitch);
  p.m_point = g.PointStride(tiles, width);
  WinogradMultiply(p);
}

void TransformOutput(const ConvPlan& plan, const Geometry& g, const ConvArgs& args, int64_t tile,
                     int64_t slot, int64_t slots, int64_t first, int64_t width,
                     const float* products) {
  const ConvShape& s = plan.shape;
  const TilePlace place = PlaceOf(g, tile);
  WinogradOutput out;
  out.column = s.out_channels;
  out.row = s.out[1] * s.out_channels;
  out.rows = std::min(g.m, s.out[0] - place.row);
  out.columns = std::min(g.m, s.out[1] - place.column);
  out.channels = std::min(width, s.out_channels - first);
  out.m = products + slot * width;
  out.point = g.PointStride(slots, width);
  const int64_t at =
      (place.image * s.out[0] + place.row) * out.row + place.column * out.column + first;
  out.y = args.output + at;
  out.bias = args.bias != nullptr ? args.bias + first : nullptr;
  const float* residual = args.epilogue.first_residual();
  out.residual = residual != nullptr ? residual + at : nullptr;
  out.clamp = args.clamps();
  out.lo = args.lo();
  out.hi = args.hi();
  WinogradOutputTile(g.m, out);
}

// FinishBlock for the outputs of neighbouring tiles: whole rows of them lie together.
void FinishTiles(const ConvPlan& plan, const Geometry& g, const ConvArgs& args, int64_t begin,
                 int64_t end) {
  const ConvShape& s = plan.shape;
  while (begin < end) {
    const TilePlace place = PlaceOf(g, begin);
    const int64_t tiles = std::min(end - begin, g.columns - place.column / g.m);
    const int64_t columns = std::min(tiles * g.m, s.out[1] - place.column);
    const int64_t ld = s.out[1] * s.out_channels;
    const int64_t at = (place.image * s.out[0] + place.row) * ld + place.column * s.out_channels;
    FinishBlock(args.epilogue, args.output + at,
                args.epilogue.residual != nullptr ? args.epilogue.residual + at : nullptr,
                std::min(g.m, s.out[0] - place.row), columns * s.out_channels, ld);
    begin += tiles;
  }
}

}  // namespace

bool HasWinograd(const ConvShape& s) {
  return s.rank == 2 && s.groups == 1 && s.kernel[0] == 3 && s.kernel[1] == 3 &&
         s.strides[0] == 1 && s.strides[1] == 1 && s.dilations[0] == 1 && s.dilations[1] == 1;
}

void PlanWinograd(ConvPlan& plan) {
  const Geometry g(plan);
  const int64_t tile_bytes = g.points * (g.in_pitch + g.width) * 4;
  const int64_t most = std::clamp(kTaskBytes / tile_bytes, int64_t{8}, kMaxTiles);
  // Equal tasks.
  plan.tiles_per_task = CeilDiv(g.tiles, CeilDiv(g.tiles, most));
  plan.worker_bytes = static_cast<size_t>(
      RoundUp((g.InputFloats(plan.tiles_per_task) + g.ProductFloats(plan.tiles_per_task)) * 4, 64));
  plan.packed_weight_bytes = static_cast<size_t>(
      RoundUp(g.points * plan.shape.in_channels * PanelColumns(plan.shape.out_channels) * 4, 64));
}

void PackWinograd(const ConvPlan& plan, const void* weights, float* packed) {
  const Geometry g(plan);
  const int64_t depth = plan.shape.in_channels, n = plan.shape.out_channels;
  for (int64_t first = 0; first < n; first += g.width) {  // panels of [point][depth][width]
    WinogradWeights w;
    w.columns = std::min(g.width, n - first);
    w.width = PanelColumns(w.columns);
    w.depth = depth;
    w.taps = static_cast<const std::byte*>(weights) + first * depth * 9 * 4;
    w.panel = packed + first * depth * g.points;
    WinogradPackPanel(g.m, w);
  }
}

void RunWinograd(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const Geometry g(plan);
  const ConvShape& s = plan.shape;
  const int64_t n = s.out_channels;
  team.Run(CeilDiv(g.tiles, plan.tiles_per_task), [&](int64_t task, int worker) {
    const int64_t begin = task * plan.tiles_per_task;
    const int64_t tiles = std::min(plan.tiles_per_task, g.tiles - begin);
    auto* v =
        reinterpret_cast<float*>(args.workspace + plan.worker_bytes * static_cast<size_t>(worker));
    float* products = v + g.InputFloats(plan.tiles_per_task);
    for (int64_t i = 0; i < tiles; ++i) {
      int64_t channel = 0;
      for (int j = 0; j < s.source_count; ++j) {
        const ConvSource& from = s.sources[j];
        TransformInput(plan, g, args.inputs[j] + from.first, from.pixel, from.channels, begin + i,
                       i, tiles, v + channel);
        channel += from.channels;
      }
    }
    for (int64_t first = 0; first < n; first += g.width) {
      const int64_t width = PanelColumns(std::min(g.width, n - first));
      Multiply(plan, g, args.packed, v, tiles, first, width, products);
      for (int64_t i = 0; i < tiles; ++i) {
        TransformOutput(plan, g, args, begin + i, i, tiles, first, width, products);
      }
    }
    if (args.epilogue.finishes()) FinishTiles(plan, g, args, begin, begin + tiles);
  });
}

}  // namespace parallax::kernels
