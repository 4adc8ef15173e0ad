// RowTile: one row of A against several neighbouring panels of packed B, compiled once per target.
//
// Role:       matrix times vector with a packed B (one token through a linear layer). One row gives
//             a tile only as many independent sums as a panel has vectors, fewer than the latency
//             of the FMA needs; four panels side by side give 8 to 12.
// Invariants: the sums of tile-inl.h, in the same order: the bits do not depend on which one runs.

#if defined(PARALLAX_KERNELS_GEMM_ROW_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_GEMM_ROW_TILE_INL_H_
#undef PARALLAX_KERNELS_GEMM_ROW_TILE_INL_H_
#else
#define PARALLAX_KERNELS_GEMM_ROW_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/clamp-inl.h"
#include "kernels/gemm/tile-inl.h"
#include "kernels/gemm/tile.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {

// `t` describes the first of kRowPanels whole panels, which are `panel_step` floats apart.
HWY_ATTR void RowTile(const TileArgs& t, int64_t panel_step) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const V alpha = hn::Set(d, t.alpha), beta = hn::Set(d, t.beta);
  const V row = hn::Set(d, t.row_bias != nullptr ? t.beta * t.row_bias[0] : 0.0f);
  const bool adds = TileAdds(t);
  // As in tile-inl.h, `at` floats from the first column.
  const auto addend = [&](size_t at) HWY_ATTR {
    if (t.accumulate) return hn::LoadU(d, t.c + at);
    V add = row;
    if (t.column_bias != nullptr) {
      add = hn::Add(row, hn::Mul(beta, hn::LoadU(d, t.column_bias + at)));
    }
    if (t.residual == nullptr) return add;
    return hn::MulAdd(beta, hn::LoadU(d, t.residual + at), add);
  };
#define PX_FOR_PANELS(X) X(0) X(1) X(2) X(3)
#define PX_AT(p, v) ((p * kTileVectors + v) * lanes)
#define PX_BEGIN(p, v) kTileVectors > v && !adds ? addend(PX_AT(p, v)) : hn::Zero(d)
#define PX_SETUP(p)                                      \
  const float* HWY_RESTRICT b##p = t.b + p * panel_step; \
  V s##p##0 = PX_BEGIN(p, 0), s##p##1 = PX_BEGIN(p, 1), s##p##2 = PX_BEGIN(p, 2);
  PX_FOR_PANELS(PX_SETUP)
#undef PX_SETUP
#undef PX_BEGIN
  const float* HWY_RESTRICT a_at = t.a;
  for (int64_t k = 0; k < t.k; ++k) {
    const V a = hn::Set(d, *a_at);
    a_at += t.a_k;
#define PX_MULTIPLY(p)                                                \
  s##p##0 = hn::MulAdd(a, hn::LoadU(d, b##p), s##p##0);               \
  s##p##1 = hn::MulAdd(a, hn::LoadU(d, b##p + lanes), s##p##1);       \
  if constexpr (kTileVectors > 2) {                                   \
    s##p##2 = hn::MulAdd(a, hn::LoadU(d, b##p + 2 * lanes), s##p##2); \
  }                                                                   \
  b##p += t.b_k;
    PX_FOR_PANELS(PX_MULTIPLY)
#undef PX_MULTIPLY
  }

  const V lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
#define PX_FINISH(p, v)                                                           \
  if constexpr (kTileVectors > v) {                                               \
    const V x = adds ? hn::MulAdd(alpha, s##p##v, addend(PX_AT(p, v))) : s##p##v; \
    hn::StoreU(t.clamp ? Clamp(d, x, lo, hi) : x, d, t.c + PX_AT(p, v));          \
  }
#define PX_PANEL(p) PX_FINISH(p, 0) PX_FINISH(p, 1) PX_FINISH(p, 2)
  PX_FOR_PANELS(PX_PANEL)
#undef PX_PANEL
#undef PX_FINISH
#undef PX_AT
#undef PX_FOR_PANELS
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
