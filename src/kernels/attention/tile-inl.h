// AttentionTile: the register-blocked inner products of attention, compiled once per target.
//
// A tile is kRows rows by kVectors vectors, held in registers over the whole inner extent. As scores
// its rows are keys and its lanes queries; as context its rows are queries and its lanes columns of
// V. Both read A element by element and B in whole vectors, as the tile of a matrix product does
// (gemm/tile-inl.h says why that size), but the widths are those of heads: four vectors of 16 lanes
// are a head of 64, so that no narrow tile is left over.
//   32 registers (AVX3, Arm):   6*4 + 4 + 1 = 29, 8*3 + 3 + 1 = 28
//   16 registers (SSE4, AVX2):  6*2 + 2 + 1 = 15

#if defined(PARALLAX_KERNELS_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_ATTENTION_TILE_INL_H_
#undef PARALLAX_KERNELS_ATTENTION_TILE_INL_H_
#else
#define PARALLAX_KERNELS_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/elementwise/tail-inl.h"
#include "kernels/inner_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kTileVectors = kManyRegisters ? 4 : 2;
constexpr int TallRows(int vectors) { return vectors == kTileVectors ? 6 : 8; }

// One additive term of a tile of scores.
struct TileMask {
  const float* at = nullptr;  // null: none
  int64_t key = 0;            // from one key to the next
  bool across = false;        // one value for all lanes; otherwise a vector of queries
};

struct ScoreTileArgs {
  const float* a = nullptr;  // K: a(r, i) = a[r * a_row + i * a_k]
  int64_t a_row = 0, a_k = 0;
  const float* b = nullptr;  // Q': b(i, j) = b[i * b_k + j]
  int64_t b_k = 0;
  int64_t k = 0;
  float* c = nullptr;    // S, rows b_k apart
  float* max = nullptr;  // of each lane, updated
  const float* key_scales = nullptr;
  TileMask masks[2];
};

struct ContextTileArgs {
  const float* a = nullptr;  // S: a(r, i) = a[r + i * a_k]
  int64_t a_k = 0;
  const float* b = nullptr;  // V
  int64_t b_k = 0;
  int64_t k = 0;
  // The running sums: c = (c * factors[r] + product) * inverse[r], to `out`.
  const float* c = nullptr;  // null: the first block
  int64_t ldc = 0;
  const float* factors = nullptr;
  const float* inverse = nullptr;  // null: not the last block
  float* out = nullptr;
  int64_t ld_out = 0;
  int64_t last_lanes = 0;  // of the last vector that may be written
};

#define PX_FOR_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define PX_DECLARE(r) \
  V c##r##0 = hn::Zero(d), c##r##1 = hn::Zero(d), c##r##2 = hn::Zero(d), c##r##3 = hn::Zero(d);
#define PX_LOAD_B                                               \
  const V b0 = hn::LoadU(d, b);                                 \
  const V b1 = kVectors > 1 ? hn::LoadU(d, b + lanes) : b0;     \
  const V b2 = kVectors > 2 ? hn::LoadU(d, b + 2 * lanes) : b0; \
  const V b3 = kVectors > 3 ? hn::LoadU(d, b + 3 * lanes) : b0;
#define PX_MULTIPLY_BY(r, element)                          \
  if constexpr (kRows > r) {                                \
    const V a = hn::Set(d, element);                        \
    AddProduct(a, b0, c##r##0);                             \
    if constexpr (kVectors > 1) AddProduct(a, b1, c##r##1); \
    if constexpr (kVectors > 2) AddProduct(a, b2, c##r##2); \
    if constexpr (kVectors > 3) AddProduct(a, b3, c##r##3); \
  }

template <int kRows, int kVectors>
HWY_ATTR void ScoreTile(const ScoreTileArgs& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
#define PX_POINTER(r) const float* HWY_RESTRICT a##r = kRows > r ? t.a + r * t.a_row : t.a;
  PX_FOR_ROWS(PX_POINTER)
#undef PX_POINTER
  PX_FOR_ROWS(PX_DECLARE)
  const float* HWY_RESTRICT b = t.b;
  const int64_t a_k = t.a_k, b_k = t.b_k;
  int64_t at = 0;
  for (int64_t k = t.k; k > 0; --k) {
    PX_LOAD_B
#define PX_MULTIPLY(r) PX_MULTIPLY_BY(r, a##r[at])
    PX_FOR_ROWS(PX_MULTIPLY)
#undef PX_MULTIPLY
    at += a_k;
    b += b_k;
  }

  V max0 = hn::LoadU(d, t.max);
  V max1 = kVectors > 1 ? hn::LoadU(d, t.max + lanes) : max0;
  V max2 = kVectors > 2 ? hn::LoadU(d, t.max + 2 * lanes) : max0;
  V max3 = kVectors > 3 ? hn::LoadU(d, t.max + 3 * lanes) : max0;
  // One test a tile for each of what most scores lack.
#define PX_EACH(X, r)                    \
  if constexpr (kRows > r) {             \
    X(r, 0);                             \
    if constexpr (kVectors > 1) X(r, 1); \
    if constexpr (kVectors > 2) X(r, 2); \
    if constexpr (kVectors > 3) X(r, 3); \
  }
  if (t.key_scales != nullptr) {
#define PX_SCALE(r, v) c##r##v = hn::Mul(c##r##v, hn::Set(d, t.key_scales[r]))
#define PX_ROW(r) PX_EACH(PX_SCALE, r)
    PX_FOR_ROWS(PX_ROW)
#undef PX_ROW
  }
  for (const TileMask& m : t.masks) {
    if (m.at == nullptr) continue;
    if (m.across) {
#define PX_ADD(r, v) c##r##v = hn::Add(c##r##v, hn::Set(d, m.at[r * m.key]))
#define PX_ROW(r) PX_EACH(PX_ADD, r)
      PX_FOR_ROWS(PX_ROW)
#undef PX_ROW
#undef PX_ADD
    } else {
#define PX_ADD(r, v) \
  c##r##v = hn::Add(c##r##v, hn::LoadU(d, m.at + r * m.key + static_cast<int64_t>(v * lanes)))
#define PX_ROW(r) PX_EACH(PX_ADD, r)
      PX_FOR_ROWS(PX_ROW)
#undef PX_ROW
#undef PX_ADD
    }
  }
#define PX_STORE(r, v)                                                       \
  {                                                                          \
    hn::StoreU(c##r##v, d, t.c + r * b_k + static_cast<int64_t>(v * lanes)); \
    max##v = hn::Max(max##v, c##r##v);                                       \
  }
#define PX_ROW(r) PX_EACH(PX_STORE, r)
  PX_FOR_ROWS(PX_ROW)
#undef PX_ROW
#undef PX_STORE
#undef PX_SCALE
#undef PX_EACH
  hn::StoreU(max0, d, t.max);
  if constexpr (kVectors > 1) hn::StoreU(max1, d, t.max + lanes);
  if constexpr (kVectors > 2) hn::StoreU(max2, d, t.max + 2 * lanes);
  if constexpr (kVectors > 3) hn::StoreU(max3, d, t.max + 3 * lanes);
}

template <int kRows, int kVectors>
HWY_ATTR void ContextTile(const ContextTileArgs& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  PX_FOR_ROWS(PX_DECLARE)
  const float* HWY_RESTRICT weights = t.a;
  const float* HWY_RESTRICT b = t.b;
  const int64_t a_k = t.a_k, b_k = t.b_k;
  for (int64_t k = t.k; k > 0; --k) {
    PX_LOAD_B
#define PX_MULTIPLY(r) PX_MULTIPLY_BY(r, weights[r])
    PX_FOR_ROWS(PX_MULTIPLY)
#undef PX_MULTIPLY
    weights += a_k;
    b += b_k;
  }

#define PX_FINISH(r, v)                                                                \
  if constexpr (kVectors > v) {                                                        \
    const size_t at = v * lanes;                                                       \
    V x = c##r##v;                                                                     \
    if (t.c != nullptr) x = hn::MulAdd(hn::LoadU(d, t.c + r * t.ldc + at), factor, x); \
    if (t.inverse != nullptr) x = hn::Mul(x, inverse);                                 \
    if (v + 1 < kVectors || whole) {                                                   \
      hn::StoreU(x, d, t.out + r * t.ld_out + at);                                     \
    } else {                                                                           \
      StoreTail(x, d, t.out + r * t.ld_out + at, last_lanes);                          \
    }                                                                                  \
  }
#define PX_STORE(r)                                                           \
  if constexpr (kRows > r) {                                                  \
    const V factor = hn::Set(d, t.c != nullptr ? t.factors[r] : 1.0f);        \
    const V inverse = hn::Set(d, t.inverse != nullptr ? t.inverse[r] : 1.0f); \
    PX_FINISH(r, 0) PX_FINISH(r, 1) PX_FINISH(r, 2) PX_FINISH(r, 3)           \
  }
  const size_t last_lanes = static_cast<size_t>(t.last_lanes);
  const bool whole = last_lanes == lanes;
  PX_FOR_ROWS(PX_STORE)
#undef PX_STORE
#undef PX_FINISH
}

#undef PX_FOR_ROWS
#undef PX_DECLARE
#undef PX_LOAD_B
#undef PX_MULTIPLY_BY

// The tallest tile of `vectors` that `rows` rows fill.
HWY_INLINE int64_t TileRows(int64_t rows, int64_t vectors) {
  const int64_t tall = TallRows(static_cast<int>(vectors));
  return rows >= tall ? tall : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
}

#define PX_BY_ROWS(Tile, vectors)                                            \
  if (rows == TallRows(vectors)) return Tile<TallRows(vectors), vectors>(t); \
  if (rows == 4) return Tile<4, vectors>(t);                                 \
  if (rows == 2) return Tile<2, vectors>(t);                                 \
  return Tile<1, vectors>(t);
#define PX_BY_VECTORS(Tile)         \
  if constexpr (kTileVectors > 2) { \
    if (vectors == 4) {             \
      PX_BY_ROWS(Tile, 4)           \
    }                               \
    if (vectors == 3) {             \
      PX_BY_ROWS(Tile, 3)           \
    }                               \
  }                                 \
  if (vectors == 2) {               \
    PX_BY_ROWS(Tile, 2)             \
  }                                 \
  PX_BY_ROWS(Tile, 1)

// `rows` as TileRows gives them.
HWY_INLINE void CallScoreTile(const ScoreTileArgs& t, int64_t rows,
                              int64_t vectors){PX_BY_VECTORS(ScoreTile)} HWY_INLINE
    void CallContextTile(const ContextTileArgs& t, int64_t rows, int64_t vectors) {
  PX_BY_VECTORS(ContextTile)
}
#undef PX_BY_VECTORS
#undef PX_BY_ROWS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
