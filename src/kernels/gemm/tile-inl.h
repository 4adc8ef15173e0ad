// Tile: the register-blocked inner kernel of every f32 matrix product, compiled once per target.
//
// A tile is up to kTileRows rows by kTileVectors vectors of C, held in registers over a block of k.
// It reads A through one pointer a row and a step in k, B through a step in k, so that the same
// code serves packed panels and operands used in place.
//
// Size. With R registers, rows*vectors accumulators, `vectors` of B and one broadcast of A must
// fit:
//   16 registers (SSE4, AVX2):  6*2 + 2 + 1 = 15
//   32 registers (AVX3, Arm):   8*3 + 3 + 1 = 28
// and rows*vectors must be at least latency * throughput of the FMA (4 cycles * 2 a cycle = 8).
// Loads a FMA: (vectors + rows) / (rows*vectors) = 0.67 and 0.46, below the one load a FMA that two
// load ports sustain.
//
// Memory. C is far away when its turn comes and nothing but these stores asks for it, so its lines are
// fetched before the sums; what a caller says it reads next (a panel of B) is fetched a line every
// few steps, which costs a load in forty. Both are worth some percent where B or C come from memory.
//
// The accumulators are named variables rather than an array: scalable vectors (SVE) cannot be array
// elements, and GCC 12 spills arrays of vectors.

#if defined(PARALLAX_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_GEMM_TILE_INL_H_
#undef PARALLAX_KERNELS_GEMM_TILE_INL_H_
#else
#define PARALLAX_KERNELS_GEMM_TILE_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/clamp-inl.h"
#include "kernels/gemm/tile.h"
#include "kernels/inner_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kTileRows = kManyRegisters ? 8 : 6;
constexpr int kTileVectors = kManyRegisters ? 3 : 2;
// Lower tiles for the last rows of a block: of up to this many.
constexpr int kTileHalfRows = kTileRows / 2;
constexpr int kTileMostRows = kTileRows * 3 / 4;

// Tiles of so few rows are done with a line of B before memory has brought the next one: they fetch
// B themselves, `ahead` floats before its turn.
constexpr int kTileFewRows = 4;

// Rows of the kernel that computes `rows` of them.
inline int TileHeight(int64_t rows) {
  if (rows > kTileMostRows) return rows < kTileRows ? kTileRows - 1 : kTileRows;
  if (rows > kTileHalfRows) return kTileMostRows;
  return rows > 1 ? kTileHalfRows : 1;
}

// Sums shorter than this are over before the lines of C are there: they fetch those of the tile below.
// Even shorter ones have no time for that.
constexpr int64_t kMinFetchK = 128;
constexpr int64_t kMinFetchDownK = 32;

// Whether something is added to the sum of a tile at its end.
inline bool TileAdds(const TileArgs& t) {
  return t.alpha != 1.0f || t.accumulate || t.residual != nullptr || t.row_bias != nullptr;
}

// Whether a part of a vector is stored as quickly as all of it: elsewhere that goes through scratch.
constexpr bool kTilesMask = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;

// Rows 0..7: those past kRows compile to nothing.
#define PX_FOR_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

template <int kRows, int kVectors>
HWY_ATTR void Tile(const TileArgs& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);

  // Rows past the end repeat the last one; their sums are not stored.
#define PX_POINTER(r) \
  const float* HWY_RESTRICT a##r = kRows > r ? t.a + HWY_MIN(r, t.rows - 1) * t.a_row : t.a;
  PX_FOR_ROWS(PX_POINTER)
#undef PX_POINTER

  const V alpha = hn::Set(d, t.alpha), beta = hn::Set(d, t.beta);
  const auto last = hn::FirstN(d, static_cast<size_t>(t.last_columns));
  V bias0 = hn::Zero(d), bias1 = hn::Zero(d), bias2 = hn::Zero(d);
  if (t.column_bias != nullptr) {
    const auto bias_at = [&](int v) HWY_ATTR {
      const float* from = t.column_bias + static_cast<size_t>(v) * lanes;
      const bool part = kTilesMask && v == kVectors - 1 && t.last_columns > 0;
      return hn::Mul(beta, part ? hn::MaskedLoad(last, d, from) : hn::LoadU(d, from));
    };
    bias0 = bias_at(0);
    if constexpr (kVectors > 1) bias1 = bias_at(1);
    if constexpr (kVectors > 2) bias2 = bias_at(2);
  }
  // What is added to alpha * sum: beta * (bias + residual), or c for the later blocks of k. The residual
  // may be C itself. Where it is a column's bias alone the sums begin with it, and at the end there is
  // nothing to do but a clamp: a tenth of a tile of small k. A residual or c may be much larger than the
  // products, each of which would be rounded as coarsely: it is added once, to their sum.
  const bool adds = TileAdds(t);
#define PX_BEGIN(r)                                                             \
  V c##r##0 = adds ? hn::Zero(d) : bias0, c##r##1 = adds ? hn::Zero(d) : bias1, \
    c##r##2 = adds ? hn::Zero(d) : bias2;
  PX_FOR_ROWS(PX_BEGIN)
#undef PX_BEGIN
#define PX_ADDEND(r, v)                                                             \
  [&]() HWY_ATTR {                                                                  \
    if (t.accumulate) return hn::LoadU(d, t.c + r * t.ldc + v * lanes);             \
    V add = bias##v;                                                                \
    if (t.row_bias != nullptr) {                                                    \
      add = hn::Add(hn::Set(d, t.beta * t.row_bias[r * t.row_bias_step]), add);     \
    }                                                                               \
    if (t.residual == nullptr) return add;                                          \
    return hn::MulAdd(beta, hn::LoadU(d, t.residual + r * t.ldc + v * lanes), add); \
  }()
  if (t.k * t.taps >= kMinFetchDownK) {
    const int64_t down = t.k * t.taps >= kMinFetchK ? 0 : kRows * t.ldc;
#define PX_FETCH(r)                                           \
  if constexpr (kRows > r) {                                  \
    const float* c = t.c + r * t.ldc + down;                  \
    hwy::Prefetch(c);                                         \
    if constexpr (kVectors > 1) hwy::Prefetch(c + lanes);     \
    if constexpr (kVectors > 2) hwy::Prefetch(c + 2 * lanes); \
  }
    PX_FOR_ROWS(PX_FETCH)
#undef PX_FETCH
  }
  // With nothing to fetch, a line that is at hand, so that there is one loop.
  const float* fetch = t.fetch != nullptr ? t.fetch : t.b;
  const int64_t fetch_step = t.fetch != nullptr ? t.fetch_step : 0;

  const int64_t a_k = t.a_k, b_k = t.b_k, ahead = t.ahead;
  int64_t at = 0;
  const float* HWY_RESTRICT b = t.b;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    if (t.tap_offsets != nullptr) b = t.b + t.tap_offsets[tap];
    if (t.a_rows != nullptr) {
      const float* const* rows = t.a_rows + tap * t.a_tap;
#define PX_POINTER(r) \
  if constexpr (kRows > r) a##r = rows[HWY_MIN(r, t.rows - 1)] + t.a_offset;
      PX_FOR_ROWS(PX_POINTER)
#undef PX_POINTER
      at = 0;
    }
#define PX_MULTIPLY(r)                                      \
  if constexpr (kRows > r) {                                \
    const V a = hn::Set(d, a##r[at]);                       \
    AddProduct(a, b0, c##r##0);                             \
    if constexpr (kVectors > 1) AddProduct(a, b1, c##r##1); \
    if constexpr (kVectors > 2) AddProduct(a, b2, c##r##2); \
  }
#define PX_STEP                                                         \
  {                                                                     \
    const V b0 = hn::LoadU(d, b);                                       \
    const V b1 = kVectors > 1 ? hn::LoadU(d, b + lanes) : b0;           \
    const V b2 = kVectors > 2 ? hn::LoadU(d, b + 2 * lanes) : b0;       \
    PX_FOR_ROWS(PX_MULTIPLY)                                            \
    at = Opaque(at + a_k);                                              \
    if constexpr (kRows <= kTileFewRows) {                              \
      hwy::Prefetch(b + ahead);                                         \
      if constexpr (kVectors > 1) hwy::Prefetch(b + ahead + lanes);     \
      if constexpr (kVectors > 2) hwy::Prefetch(b + ahead + 2 * lanes); \
    }                                                                   \
    b = Opaque(b + b_k);                                                \
  }
    static_assert(kFetchSteps == 2);
    int64_t k = t.k;
    for (; k >= 4; k -= 4) {
      FetchToL2(fetch);
      fetch += fetch_step;
      PX_STEP PX_STEP FetchToL2(fetch);
      fetch += fetch_step;
      PX_STEP PX_STEP
    }
    for (; k > 0; --k) PX_STEP
#undef PX_STEP
#undef PX_MULTIPLY
  }

  const V lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
#define PX_FINISH_ADD(r, v)                                          \
  if constexpr (kVectors > v) {                                      \
    const V x = hn::MulAdd(alpha, c##r##v, PX_ADDEND(r, v));         \
    hn::StoreU(t.clamp ? Clamp(d, x, lo, hi) : x, d, c + v * lanes); \
  }
#define PX_FINISH_PLAIN(r, v) \
  if constexpr (kVectors > v) hn::StoreU(c##r##v, d, c + v * lanes);
#define PX_FINISH_CLAMP(r, v) \
  if constexpr (kVectors > v) hn::StoreU(Clamp(d, c##r##v, lo, hi), d, c + v * lanes);
#define PX_FINISH_PART(r, v)                                   \
  if constexpr (kVectors > v) {                                \
    const V x = t.clamp ? Clamp(d, c##r##v, lo, hi) : c##r##v; \
    if constexpr (v == kVectors - 1) {                         \
      hn::BlendedStore(x, last, d, c + v * lanes);             \
    } else {                                                   \
      hn::StoreU(x, d, c + v * lanes);                         \
    }                                                          \
  }
#define PX_STORE_WITH(r, FINISH)             \
  if constexpr (kRows > r) {                 \
    if (r < t.rows) {                        \
      float* c = t.c + r * t.ldc;            \
      FINISH(r, 0) FINISH(r, 1) FINISH(r, 2) \
    }                                        \
  }
#define PX_STORE_ADD(r) PX_STORE_WITH(r, PX_FINISH_ADD)
#define PX_STORE_PART(r) PX_STORE_WITH(r, PX_FINISH_PART)
#define PX_STORE_PLAIN(r) PX_STORE_WITH(r, PX_FINISH_PLAIN)
#define PX_STORE_CLAMP(r) PX_STORE_WITH(r, PX_FINISH_CLAMP)
  if (adds) {
    PX_FOR_ROWS(PX_STORE_ADD)
  } else if (kTilesMask && t.last_columns > 0) {
    PX_FOR_ROWS(PX_STORE_PART)
  } else if (t.clamp) {
    PX_FOR_ROWS(PX_STORE_CLAMP)
  } else {
    PX_FOR_ROWS(PX_STORE_PLAIN)
  }
#undef PX_STORE_CLAMP
#undef PX_STORE_PLAIN
#undef PX_STORE_PART
#undef PX_STORE_ADD
#undef PX_STORE_WITH
#undef PX_FINISH_CLAMP
#undef PX_FINISH_PLAIN
#undef PX_FINISH_PART
#undef PX_FINISH_ADD
#undef PX_ADDEND
}
#undef PX_FOR_ROWS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
