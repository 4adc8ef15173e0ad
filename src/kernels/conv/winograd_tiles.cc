#include "kernels/conv/winograd_tiles.h"

#include <cstring>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/winograd_tiles.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/conv/finish-inl.h"
#include "kernels/inner_loop-inl.h"

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
      const float* at = x + j * in.column;
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
        FinishLanes(d, hn::Add(y, bias), out.residual != nullptr ? out.residual + at : nullptr,
                    out.clamp, lo, hi, out.y + at, whole, n);
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
                         int64_t depth, float* HWY_RESTRICT m, int64_t ahead) {
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
    // What the next point multiplies with: it comes from far away, and is read once a task.
    FetchToL2(u + ahead);
    if constexpr (kVectors > 1) FetchToL2(u + ahead + lanes);
    if constexpr (kVectors > 2) FetchToL2(u + ahead + 2 * lanes);
    u += width;
#define PX_MULTIPLY(r)                                       \
  if constexpr (kRows > r) {                                 \
    const V a = hn::Set(d, v##r[k]);                         \
    AddProduct(a, u0, m##r##_0);                             \
    if constexpr (kVectors > 1) AddProduct(a, u1, m##r##_1); \
    if constexpr (kVectors > 2) AddProduct(a, u2, m##r##_2); \
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
constexpr int kRowsOf[] = {0, kManyRegisters ? 16 : 12, kManyRegisters ? 12 : 6,
                           kManyRegisters ? 8 : 4};

// As many tiles of kRows rows as fit; gives the rows that are left.
template <int kRows, int kVectors>
HWY_INLINE int64_t ProductRows(const WinogradProducts& p, int64_t point, int64_t left) {
  const float* u = p.u + point * p.depth * p.width;
  while (left >= kRows) {
    const int64_t row = p.tiles - left;
    Products<kRows, kVectors>(p.v + point * p.v_point + row * p.v_row, p.v_row, u, p.depth,
                              p.m + point * p.m_point + row * p.width,
                              row == 0 ? p.depth * p.width : 0);
    left -= kRows;
  }
  return left;
}

template <int kVectors>
void ProductsOfWidth(const WinogradProducts& p) {
  constexpr int kRows = kRowsOf[kVectors];
  for (int64_t point = 0; point < p.points; ++point) {
    int64_t left = ProductRows<kRows, kVectors>(p, point, p.tiles);
    if constexpr (kRows > 8) left = ProductRows<8, kVectors>(p, point, left);
    left = ProductRows<4, kVectors>(p, point, left);
    left = ProductRows<2, kVectors>(p, point, left);
    ProductRows<1, kVectors>(p, point, left);
  }
}

void AllProducts(const WinogradProducts& p) {
  const int64_t vectors = p.width / static_cast<int64_t>(hn::Lanes(D()));
  if (vectors == 1) return ProductsOfWidth<1>(p);
  if (vectors == 2) return ProductsOfWidth<2>(p);
  ProductsOfWidth<3>(p);
}

// G g G^T in f64, rounded once. Plain loops over columns: the compiler makes vectors of them.
template <int kOut>
void PackPanel(const WinogradWeights& w) {
  constexpr int kIn = kOut + 2;
  constexpr int64_t kMaxWidth = 3 * kMaxLanes;
  static constexpr double kG4[6][3] = {{1.0 / 4, 0, 0},
                                       {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                       {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                       {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                       {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                       {0, 0, 1}};
  static constexpr double kG2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  double taps[9][kMaxWidth] = {}, half[kIn][3][kMaxWidth];
  for (int64_t k = 0; k < w.depth; ++k) {
    for (int64_t j = 0; j < w.columns; ++j) {
      float nine[9];
      std::memcpy(nine, w.taps + (j * w.depth + k) * 9 * 4, sizeof nine);
      for (int t = 0; t < 9; ++t) taps[t][j] = static_cast<double>(nine[t]);
    }
    for (int i = 0; i < kIn; ++i) {
      const double* g = kOut == 4 ? kG4[i] : kG2[i % 4];
      for (int c = 0; c < 3; ++c) {
        for (int64_t j = 0; j < w.width; ++j) {
          half[i][c][j] = g[0] * taps[c][j] + g[1] * taps[3 + c][j] + g[2] * taps[6 + c][j];
        }
      }
    }
    for (int i = 0; i < kIn; ++i) {
      for (int q = 0; q < kIn; ++q) {
        const double* g = kOut == 4 ? kG4[q] : kG2[q % 4];
        float* to = w.panel + ((i * kIn + q) * w.depth + k) * w.width;
        for (int64_t j = 0; j < w.width; ++j) {
          to[j] = static_cast<float>(g[0] * half[i][0][j] + g[1] * half[i][1][j] +
                                     g[2] * half[i][2][j]);
        }
      }
    }
  }
}
void PackPanel4(const WinogradWeights& w) { PackPanel<4>(w); }
void PackPanel2(const WinogradWeights& w) { PackPanel<2>(w); }

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
HWY_EXPORT(PackPanel4);
HWY_EXPORT(PackPanel2);
HWY_EXPORT(AllProducts);
HWY_EXPORT(InputTile4);
HWY_EXPORT(InputTile2);
HWY_EXPORT(OutputTile4);
HWY_EXPORT(OutputTile2);
}  // namespace

void WinogradInputTile(int64_t m, const WinogradInput& in) {
  if (m == 4) {
    HWY_DYNAMIC_DISPATCH(InputTile4)(in);
  } else {
    HWY_DYNAMIC_DISPATCH(InputTile2)(in);
  }
}

void WinogradOutputTile(int64_t m, const WinogradOutput& out) {
  if (m == 4) {
    HWY_DYNAMIC_DISPATCH(OutputTile4)(out);
  } else {
    HWY_DYNAMIC_DISPATCH(OutputTile2)(out);
  }
}

void WinogradMultiply(const WinogradProducts& products) {
  HWY_DYNAMIC_DISPATCH(AllProducts)(products);
}

void WinogradPackPanel(int64_t m, const WinogradWeights& weights) {
  if (m == 4) {
    HWY_DYNAMIC_DISPATCH(PackPanel4)(weights);
  } else {
    HWY_DYNAMIC_DISPATCH(PackPanel2)(weights);
  }
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
