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
#include <cstring>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/gemm/panel.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/winograd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/elementwise/tail-inl.h"

// Between RunWinograd and the transforms of a target; defined once.
#ifndef PARALLAX_KERNELS_CONV_WINOGRAD_ARGS_
#define PARALLAX_KERNELS_CONV_WINOGRAD_ARGS_
namespace parallax::kernels {

// The inputs of one tile.
struct WinogradInput {
  const float* x = nullptr;  // input row 0, column 0 of the tile, which padding may hold
  int64_t row = 0;           // floats between rows
  int64_t channels = 0;      // and between columns
  // Rows and columns of the tile that lie in the input.
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  float* v = nullptr;  // point 0, channel 0
  int64_t point = 0;   // floats between points
};

// The outputs of one tile, for `channels` channels.
struct WinogradOutput {
  const float* m = nullptr;  // point 0, channel 0; whole vectors
  int64_t point = 0;
  int64_t channels = 0;
  float* y = nullptr;  // output row 0, column 0 of the tile
  int64_t row = 0, column = 0;
  int64_t rows = 0, columns = 0;  // that lie in the output
  const float* bias = nullptr;
  const float* residual = nullptr;  // at y's place; y itself is allowed
  bool clamp = false;
  float lo = 0, hi = 0;
};

// The products of all points: m[p][tile][column] = sum over k of v[p][tile][k] u[p][k][column].
struct WinogradProducts {
  const float* v = nullptr;
  const float* u = nullptr;
  float* m = nullptr;
  int64_t points = 0, tiles = 0, depth = 0;
  int64_t width = 0;               // columns of u and m: whole vectors, at most kMaxVectors
  int64_t v_row = 0, v_point = 0;  // floats between tiles and between points
  int64_t m_point = 0;
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
constexpr size_t kMaxLanes = hn::MaxLanes(D());

// B^T x of six (or, for m = 2, the first four) values, stored `step` floats apart.
template <int kOut>
HWY_INLINE void InputLine(V d0, V d1, V d2, V d3, V d4, V d5, float* to, size_t step) {
  const D d;
  if constexpr (kOut == 4) {
    const V four = hn::Set(d, 4.0f), five = hn::Set(d, 5.0f);
    const V a = hn::NegMulAdd(four, d2, d4), b = hn::NegMulAdd(four, d1, d3);
    const V c = hn::Sub(d4, d2), e = hn::Sub(d3, d1), e2 = hn::Add(e, e);
    hn::StoreU(hn::NegMulAdd(five, d2, hn::MulAdd(four, d0, d4)), d, to);
    hn::StoreU(hn::Add(a, b), d, to + step);
    hn::StoreU(hn::Sub(a, b), d, to + 2 * step);
    hn::StoreU(hn::Add(c, e2), d, to + 3 * step);
    hn::StoreU(hn::Sub(c, e2), d, to + 4 * step);
    hn::StoreU(hn::NegMulAdd(five, d3, hn::MulAdd(four, d1, d5)), d, to + 5 * step);
  } else {
    hn::StoreU(hn::Sub(d0, d2), d, to);
    hn::StoreU(hn::Add(d1, d2), d, to + step);
    hn::StoreU(hn::Sub(d2, d1), d, to + 2 * step);
    hn::StoreU(hn::Sub(d1, d3), d, to + 3 * step);
  }
}

// A^T m, kOut values.
template <int kOut>
HWY_INLINE void OutputLine(V m0, V m1, V m2, V m3, V m4, V m5, V& y0, V& y1, V& y2, V& y3) {
  if constexpr (kOut == 4) {
    const D d;
    const V s = hn::Add(m1, m2), t = hn::Sub(m1, m2);
    const V s2 = hn::Add(m3, m4), t2 = hn::Sub(m3, m4);
    y0 = hn::Add(hn::Add(m0, s), s2);
    y1 = hn::MulAdd(hn::Set(d, 2.0f), t2, t);
    y2 = hn::MulAdd(hn::Set(d, 4.0f), s2, s);
    y3 = hn::Add(hn::MulAdd(hn::Set(d, 8.0f), t2, t), m5);
  } else {
    y0 = hn::Add(hn::Add(m0, m1), m2);
    y1 = hn::Sub(hn::Sub(m1, m2), m3);
    y2 = y1;
    y3 = y1;
  }
}

template <int kOut>
void InputTile(const WinogradInput& in) {
  constexpr int kIn = kOut + 2;
  const D d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float lines[kIn * kIn * kMaxLanes];
  const bool inside =
      in.row_begin == 0 && in.column_begin == 0 && in.row_end == kIn && in.column_end == kIn;
  for (int64_t c = 0; c < in.channels; c += static_cast<int64_t>(lanes)) {
    const size_t n = static_cast<size_t>(in.channels - c);
    const float* x = in.x + c;
    const bool whole = n >= lanes;
    for (int64_t j = 0; j < kIn; ++j) {
      const float* at = x + j * in.channels;
      float* to = lines + static_cast<size_t>(j) * lanes;
      const bool column_in = j >= in.column_begin && j < in.column_end;
      const auto load = [&](int64_t i) HWY_ATTR {
        if (HWY_LIKELY(inside && whole)) return hn::LoadU(d, at + i * in.row);
        if (!column_in || i < in.row_begin || i >= in.row_end) return hn::Zero(d);
        return whole ? hn::LoadU(d, at + i * in.row) : LoadTail(d, at + i * in.row, n);
      };
      const V d0 = load(0), d1 = load(1), d2 = load(2), d3 = load(3);
      const V d4 = kOut == 4 ? load(4) : d0, d5 = kOut == 4 ? load(5) : d0;
      InputLine<kOut>(d0, d1, d2, d3, d4, d5, to, kIn * lanes);
    }
    for (int64_t i = 0; i < kIn; ++i) {
      const float* from = lines + static_cast<size_t>(i) * kIn * lanes;
      const V d0 = hn::Load(d, from), d1 = hn::Load(d, from + lanes);
      const V d2 = hn::Load(d, from + 2 * lanes), d3 = hn::Load(d, from + 3 * lanes);
      const V d4 = kOut == 4 ? hn::Load(d, from + 4 * lanes) : d0;
      const V d5 = kOut == 4 ? hn::Load(d, from + 5 * lanes) : d0;
      InputLine<kOut>(d0, d1, d2, d3, d4, d5, in.v + i * kIn * in.point + c,
                      static_cast<size_t>(in.point));
    }
  }
}

template <int kOut>
void OutputTile(const WinogradOutput& out) {
  constexpr int kIn = kOut + 2;
  const D d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float lines[kOut * kIn * kMaxLanes];
  const V lo = hn::Set(d, out.lo), hi = hn::Set(d, out.hi);
  for (int64_t c = 0; c < out.channels; c += static_cast<int64_t>(lanes)) {
    const size_t n = static_cast<size_t>(out.channels - c);
    const bool whole = n >= lanes;
    V y0, y1, y2, y3;
    for (int64_t j = 0; j < kIn; ++j) {
      const float* m = out.m + j * out.point + c;
      const auto load = [&](int64_t i) HWY_ATTR { return hn::LoadU(d, m + i * kIn * out.point); };
      const V m0 = load(0), m1 = load(1), m2 = load(2), m3 = load(3);
      const V m4 = kOut == 4 ? load(4) : m0, m5 = kOut == 4 ? load(5) : m0;
      OutputLine<kOut>(m0, m1, m2, m3, m4, m5, y0, y1, y2, y3);
      float* to = lines + static_cast<size_t>(j) * lanes;
      hn::Store(y0, d, to);
      hn::Store(y1, d, to + kIn * lanes);
      if constexpr (kOut == 4) {
        hn::Store(y2, d, to + 2 * kIn * lanes);
        hn::Store(y3, d, to + 3 * kIn * lanes);
      }
    }
    V bias = hn::Zero(d);
    if (out.bias != nullptr) {
      bias = whole ? hn::LoadU(d, out.bias + c) : LoadTail(d, out.bias + c, n);
    }
    for (int64_t i = 0; i < out.rows; ++i) {
      const float* from = lines + static_cast<size_t>(i) * kIn * lanes;
      const V m0 = hn::Load(d, from), m1 = hn::Load(d, from + lanes);
      const V m2 = hn::Load(d, from + 2 * lanes), m3 = hn::Load(d, from + 3 * lanes);
      const V m4 = kOut == 4 ? hn::Load(d, from + 4 * lanes) : m0;
      const V m5 = kOut == 4 ? hn::Load(d, from + 5 * lanes) : m0;
      OutputLine<kOut>(m0, m1, m2, m3, m4, m5, y0, y1, y2, y3);
      const auto store = [&](V y, int64_t j) HWY_ATTR {
        if (j >= out.columns) return;
        const int64_t at = i * out.row + j * out.column + c;
        y = hn::Add(y, bias);
        if (out.residual != nullptr) {
          const float* r = out.residual + at;
          y = hn::Add(y, whole ? hn::LoadU(d, r) : LoadTail(d, r, n));
        }
        if (out.clamp) {
          y = hn::IfThenElse(hn::Lt(y, lo), lo, y);
          y = hn::IfThenElse(hn::Gt(y, hi), hi, y);
        }
        if (HWY_LIKELY(whole)) {
          hn::StoreU(y, d, out.y + at);
        } else {
          StoreTail(y, d, out.y + at, n);
        }
      };
      store(y0, 0);
      store(y1, 1);
      if constexpr (kOut == 4) {
        store(y2, 2);
        store(y3, 3);
      }
    }
  }
}

// A register tile of kRows tiles and kVectors vectors of columns. Depths are small here, often 16 or
// 32: what a tile does besides its sums counts as much as they do, so it does nothing.
#define PX_FOR_ROWS(X) \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
template <int kRows, int kVectors>
HWY_INLINE void Products(const float* HWY_RESTRICT v, int64_t v_row, const float* HWY_RESTRICT u,
                         int64_t depth, float* HWY_RESTRICT m) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const size_t width = kVectors * lanes;
#define PX_SETUP(r)                                                 \
  const float* HWY_RESTRICT v##r = v + (kRows > r ? r : 0) * v_row; \
  V m##r##_0 = hn::Zero(d), m##r##_1 = m##r##_0, m##r##_2 = m##r##_0;
  PX_FOR_ROWS(PX_SETUP)
#undef PX_SETUP
  for (int64_t k = 0; k < depth; ++k) {
    const V u0 = hn::LoadU(d, u);
    const V u1 = kVectors > 1 ? hn::LoadU(d, u + lanes) : u0;
    const V u2 = kVectors > 2 ? hn::LoadU(d, u + 2 * lanes) : u0;
    u += width;
#define PX_MULTIPLY(r)                                                  \
  if constexpr (kRows > r) {                                            \
    const V a = hn::Set(d, v##r[k]);                                    \
    m##r##_0 = hn::MulAdd(a, u0, m##r##_0);                             \
    if constexpr (kVectors > 1) m##r##_1 = hn::MulAdd(a, u1, m##r##_1); \
    if constexpr (kVectors > 2) m##r##_2 = hn::MulAdd(a, u2, m##r##_2); \
  }
    PX_FOR_ROWS(PX_MULTIPLY)
#undef PX_MULTIPLY
  }
#define PX_STORE(r)                                                                 \
  if constexpr (kRows > r) {                                                        \
    hn::StoreU(m##r##_0, d, m + r * width);                                         \
    if constexpr (kVectors > 1) hn::StoreU(m##r##_1, d, m + r * width + lanes);     \
    if constexpr (kVectors > 2) hn::StoreU(m##r##_2, d, m + r * width + 2 * lanes); \
  }
  PX_FOR_ROWS(PX_STORE)
#undef PX_STORE
}
#undef PX_FOR_ROWS

// Rows of a register tile, by vectors: as many as registers hold, for a single vector enough to
// hide the latency of the FMA.
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_RVV
constexpr int kRowsOf[] = {0, 16, 12, 8};
#else
constexpr int kRowsOf[] = {0, 12, 6, 4};
#endif

template <int kVectors>
void ProductsOfWidth(const WinogradProducts& p) {
  constexpr int kRows = kRowsOf[kVectors];
  for (int64_t point = 0; point < p.points; ++point) {
    const float* v = p.v + point * p.v_point;
    const float* u = p.u + point * p.depth * p.width;
    float* m = p.m + point * p.m_point;
    int64_t left = p.tiles;
    const auto step = [&](int64_t rows) {
      v += rows * p.v_row;
      m += rows * p.width;
      left -= rows;
    };
    for (; left >= kRows; step(kRows)) Products<kRows, kVectors>(v, p.v_row, u, p.depth, m);
    if constexpr (kRows > 8) {
      for (; left >= 8; step(8)) Products<8, kVectors>(v, p.v_row, u, p.depth, m);
    }
    for (; left >= 4; step(4)) Products<4, kVectors>(v, p.v_row, u, p.depth, m);
    for (; left >= 2; step(2)) Products<2, kVectors>(v, p.v_row, u, p.depth, m);
    if (left == 1) Products<1, kVectors>(v, p.v_row, u, p.depth, m);
  }
}

void AllProducts(const WinogradProducts& p) {
  const int64_t vectors = p.width / static_cast<int64_t>(hn::Lanes(D()));
  if (vectors == 1) return ProductsOfWidth<1>(p);
  if (vectors == 2) return ProductsOfWidth<2>(p);
  ProductsOfWidth<3>(p);
}

void InputTile4(const WinogradInput& in) { InputTile<4>(in); }
void InputTile2(const WinogradInput& in) { InputTile<2>(in); }
void OutputTile4(const WinogradOutput& out) { OutputTile<4>(out); }
void OutputTile2(const WinogradOutput& out) { OutputTile<2>(out); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(AllProducts);
HWY_EXPORT(InputTile4);
HWY_EXPORT(InputTile2);
HWY_EXPORT(OutputTile4);
HWY_EXPORT(OutputTile2);

// The transformed inputs and products of one task stay in L2 (of 1 MB; half as much is common on
// small machines, where L3 or the system cache takes the rest).
constexpr int64_t kTaskBytes = 512 << 10;
constexpr int64_t kMaxTiles = 64;
// Vectors of output channels multiplied at once.
constexpr int64_t kMaxVectors = 3;

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
        width(PanelWidth(plan.shape.out_channels)) {}
  // Panels of equal width, so that none is left with a single vector.
  static int64_t PanelWidth(int64_t channels) {
    const int64_t lanes = GetTileGeometry().lanes, vectors = CeilDiv(channels, lanes);
    return CeilDiv(vectors, CeilDiv(vectors, kMaxVectors)) * lanes;
  }
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

void TransformInput(const ConvPlan& plan, const Geometry& g, const float* input, int64_t tile,
                    int64_t slot, int64_t slots, float* v) {
  const ConvShape& s = plan.shape;
  const TilePlace place = PlaceOf(g, tile);
  const int64_t row = place.row - s.pads_begin[0], column = place.column - s.pads_begin[1];
  const int64_t side = g.m + 2;
  WinogradInput in;
  in.row = s.in[1] * s.in_channels;
  in.channels = s.in_channels;
  // Only what lies in the input is read: before its first row the address is just a number.
  in.x = input + (place.image * s.in[0] + row) * in.row + column * s.in_channels;
  in.row_begin = std::clamp<int64_t>(-row, 0, side);
  in.row_end = std::clamp<int64_t>(s.in[0] - row, 0, side);
  in.column_begin = std::clamp<int64_t>(-column, 0, side);
  in.column_end = std::clamp<int64_t>(s.in[1] - column, 0, side);
  in.point = g.PointStride(slots, g.in_pitch);
  in.v = v + slot * g.in_pitch;
  if (g.m == 4) {
    HWY_DYNAMIC_DISPATCH(InputTile4)(in);
  } else {
    HWY_DYNAMIC_DISPATCH(InputTile2)(in);
  }
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
  HWY_DYNAMIC_DISPATCH(AllProducts)(p);
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
  if (g.m == 4) {
    HWY_DYNAMIC_DISPATCH(OutputTile4)(out);
  } else {
    HWY_DYNAMIC_DISPATCH(OutputTile2)(out);
  }
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
  static constexpr double kG4[6][3] = {{1.0 / 4, 0, 0},
                                       {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                       {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                       {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                       {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                       {0, 0, 1}};
  static constexpr double kG2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  const Geometry g(plan);
  const int64_t side = g.m + 2, depth = plan.shape.in_channels, n = plan.shape.out_channels;
  const double(*rows)[3] = g.m == 4 ? kG4 : kG2;
  const auto* bytes = static_cast<const std::byte*>(weights);
  for (int64_t first = 0; first < n; first += g.width) {  // panels of [point][depth][width]
    const int64_t columns = std::min(g.width, n - first), panel_width = PanelColumns(columns);
    float* panel = packed + first * depth * g.points;
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < panel_width; ++j) {
        double w[9] = {}, half[6][3];
        if (j < columns) {
          float taps[9];
          std::memcpy(taps, bytes + ((first + j) * depth + k) * 9 * 4, sizeof taps);
          for (int t = 0; t < 9; ++t) w[t] = static_cast<double>(taps[t]);
        }
        for (int64_t i = 0; i < side; ++i) {
          for (int c = 0; c < 3; ++c) {
            half[i][c] = rows[i][0] * w[c] + rows[i][1] * w[3 + c] + rows[i][2] * w[6 + c];
          }
        }
        for (int64_t i = 0; i < side; ++i) {
          for (int64_t q = 0; q < side; ++q) {
            panel[((i * side + q) * depth + k) * panel_width + j] = static_cast<float>(
                rows[q][0] * half[i][0] + rows[q][1] * half[i][1] + rows[q][2] * half[i][2]);
          }
        }
      }
    }
  }
}

void RunWinograd(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const Geometry g(plan);
  const int64_t n = plan.shape.out_channels;
  team.Run(CeilDiv(g.tiles, plan.tiles_per_task), [&](int64_t task, int worker) {
    const int64_t begin = task * plan.tiles_per_task;
    const int64_t tiles = std::min(plan.tiles_per_task, g.tiles - begin);
    auto* v =
        reinterpret_cast<float*>(args.workspace + plan.worker_bytes * static_cast<size_t>(worker));
    float* products = v + g.InputFloats(plan.tiles_per_task);
    for (int64_t i = 0; i < tiles; ++i) {
      TransformInput(plan, g, args.input, begin + i, i, tiles, v);
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
#endif  // HWY_ONCE
