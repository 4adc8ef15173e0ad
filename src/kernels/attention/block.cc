#include "kernels/attention/block.h"

#include <limits>

#include "base/checked.h"
#include "kernels/gemm/panel.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/block.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/tile-inl.h"
#include "kernels/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

int64_t LanesImpl() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

// At most so many queries are kept in rows rather than across lanes.
constexpr int64_t kFewQueries = 8;

// Whether blocks transpose the mask for themselves.
bool TransposesMask(const AttentionMask& m) { return m.present && !m.packed && m.row != 0; }

// The parts of a block's workspace, in floats.
struct Parts {
  int64_t q, q_rows, scores, weighted, v_tail, masks, key_scales, max, block_max, sum, factors,
      total;
};
Parts PartsOf(const AttentionShape& s) {
  const int64_t lanes = LanesImpl();
  const int64_t keys = RoundUp(kBlockKeys, 8);
  Parts p = {};
  int64_t at = 0;
  const auto take = [&at](int64_t floats) {
    const int64_t from = at;
    at += RoundUp(floats, 16);
    return from;
  };
  p.q = take(s.depth * kBlockQueries);
  p.q_rows = take(kFewQueries * RoundUp(s.depth, lanes));
  p.scores = take(keys * kBlockQueries);
  p.weighted = take(kBlockQueries * RoundUp(s.value_depth, lanes));
  p.v_tail = take(s.value_depth % lanes != 0 ? keys * lanes : 0);
  const bool transposes = TransposesMask(s.masks[0]) || TransposesMask(s.masks[1]);
  p.masks = take(transposes ? kAttentionMasks * keys * kBlockQueries : 0);
  p.key_scales = take(s.normalize ? keys : 0);
  p.max = take(kBlockQueries);
  p.block_max = take(kBlockQueries);
  p.sum = take(kBlockQueries);
  p.factors = take(kBlockQueries);
  p.total = at;
  return p;
}

int64_t FloatsImpl(const AttentionShape& s) { return PartsOf(s).total; }

// dst[i][width] = src(i, j) for j < columns, zeros up to the width.
void Gather(const float* src, int64_t step_i, int64_t step_j, int64_t count, int64_t columns,
            int64_t width, float* dst) {
  if (step_i == 1) return PackPanelTranspose(src, step_j, count, columns, width, dst);
  if (step_j == 1) return PackPanelCopy(src, step_i, count, columns, width, dst);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      dst[i * width + j] = j < columns ? src[i * step_i + j * step_j] : 0.0f;
    }
  }
}

// Q' = scale * Q, each query divided by its norm where the shape says so.
void LoadQueries(const AttentionBlock& block, int64_t width, float* q) {
  const AttentionShape& s = *block.shape;
  const hn::ScalableTag<float> d;
  const int64_t lanes = LanesImpl();
  Gather(block.q, s.q.depth, s.q.row, s.depth, block.rows, width, q);
  for (int64_t j = 0; j < width; j += lanes) {
    auto factor = hn::Set(d, block.scale);
    if (s.normalize) {
      auto squares = hn::Zero(d);
      for (int64_t i = 0; i < s.depth; ++i) {
        const auto x = hn::LoadU(d, q + i * width + j);
        squares = hn::MulAdd(x, x, squares);
      }
      const auto norm = hn::Sqrt(squares), least = hn::Set(d, s.epsilon);
      factor = hn::Div(factor, hn::IfThenElse(hn::Lt(norm, least), least, norm));
    }
    for (int64_t i = 0; i < s.depth; ++i) {
      float* at = q + i * width + j;
      hn::StoreU(hn::Mul(hn::LoadU(d, at), factor), d, at);
    }
  }
}

// The sums of the lanes of four vectors, next to each other at `to`.
template <class D, class V>
HWY_INLINE void StoreSums(D d, V a, V b, V c, V e, float* to) {
#if HWY_TARGET == HWY_SCALAR
  to[0] = hn::GetLane(a);
  to[1] = hn::GetLane(b);
  to[2] = hn::GetLane(c);
  to[3] = hn::GetLane(e);
  (void)d;
#else
  // Within each block of four lanes two steps of adding halves leave one sum of each vector.
  const hn::RepartitionToWide<D> dw;
  const auto ab =
      hn::BitCast(dw, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce =
      hn::BitCast(dw, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  HWY_ALIGN float blocks[hn::MaxLanes(d)];
  hn::Store(hn::Add(hn::BitCast(d, hn::InterleaveLower(dw, ab, ce)),
                    hn::BitCast(d, hn::InterleaveUpper(dw, ab, ce))),
            d, blocks);
  const hn::CappedTag<float, 4> d4;
  auto sum = hn::Load(d4, blocks);
  for (size_t i = 4; i < hn::Lanes(d); i += 4) sum = hn::Add(sum, hn::Load(d4, blocks + i));
  hn::StoreU(sum, d4, to);
#endif
}

// 1 / max(norm, epsilon) of each key. `scales` has room for whole vectors.
void KeyScales(const AttentionShape& s, const float* k, int64_t keys, float* scales) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = LanesImpl();
  for (int64_t r = 0; r < keys; r += 4) {
    const float* HWY_RESTRICT k0 = k + r * s.k.row;  // past the last key: that one again
    const float* HWY_RESTRICT k1 = k + HWY_MIN(r + 1, keys - 1) * s.k.row;
    const float* HWY_RESTRICT k2 = k + HWY_MIN(r + 2, keys - 1) * s.k.row;
    const float* HWY_RESTRICT k3 = k + HWY_MIN(r + 3, keys - 1) * s.k.row;
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    for (int64_t i = 0; i < s.depth; i += lanes) {
      const size_t left = static_cast<size_t>(HWY_MIN(s.depth - i, lanes));
      const auto load = [&](const float* row) HWY_ATTR {
        return left == static_cast<size_t>(lanes) ? hn::LoadU(d, row + i)
                                                  : LoadTail(d, row + i, left);
      };
      const auto x0 = load(k0), x1 = load(k1), x2 = load(k2), x3 = load(k3);
      s0 = hn::MulAdd(x0, x0, s0);
      s1 = hn::MulAdd(x1, x1, s1);
      s2 = hn::MulAdd(x2, x2, s2);
      s3 = hn::MulAdd(x3, x3, s3);
    }
    StoreSums(d, s0, s1, s2, s3, scales + r);
  }
  const auto one = hn::Set(d, 1.0f), least = hn::Set(d, s.epsilon);
  for (int64_t r = 0; r < keys; r += lanes) {
    const auto norm = hn::Sqrt(hn::LoadU(d, scales + r));
    hn::StoreU(hn::Div(one, hn::IfThenElse(hn::Lt(norm, least), least, norm)), d, scales + r);
  }
}

// The masks of keys [key, key + keys) as tiles add them; those with rows are transposed to `scratch`.
void SetMasks(const AttentionBlock& block, int64_t key, int64_t keys, int64_t width, float* scratch,
              TileMask masks[kAttentionMasks]) {
  const int64_t packed_width = RoundUp(block.shape->m, LanesImpl());
  for (int i = 0; i < kAttentionMasks; ++i) {
    const AttentionMask& m = block.shape->masks[i];
    if (!m.present) continue;
    if (m.packed) {
      masks[i] = {block.masks[i] + key * packed_width, packed_width, false};
    } else if (m.row == 0) {
      masks[i] = {block.masks[i] + key * m.key, m.key, true};
    } else {
      float* const to = scratch + i * RoundUp(kBlockKeys, 8) * kBlockQueries;
      Gather(block.masks[i] + key * m.key, m.key, m.row, keys, block.rows, width, to);
      masks[i] = {to, width, false};
    }
  }
}

// Columns [0, vectors) in groups of at most kTileVectors, as even as they go.
struct Groups {
  int64_t vectors, size;
};
HWY_INLINE Groups GroupsOf(int64_t vectors) {
  const int64_t count = CeilDiv(vectors, static_cast<int64_t>(kTileVectors));
  return {vectors, CeilDiv(vectors, count)};
}

// S and the largest score of each query.
void Scores(const AttentionShape& s, const float* k, int64_t keys, const float* q, int64_t width,
            const float* key_scales, const TileMask masks[kAttentionMasks], float* scores,
            float* max) {
  const int64_t lanes = LanesImpl();
  const Groups groups = GroupsOf(width / lanes);
  ScoreTileArgs t;
  t.a_row = s.k.row;
  t.a_k = s.k.depth;
  t.b_k = width;
  t.k = s.depth;
  // The tallest tile of the widest group leads; narrower groups follow its rows in their own.
  for (int64_t r = 0, rows = 0; r < keys; r += rows) {
    rows = TileRows(keys - r, groups.size);
    for (int64_t g = 0; g < groups.vectors; g += groups.size) {
      const int64_t vectors = HWY_MIN(groups.size, groups.vectors - g);
      for (int64_t i = 0, height = 0; i < rows; i += height) {
        height = TileRows(rows - i, vectors);
        const int64_t key = r + i;
        t.a = k + key * s.k.row;
        t.b = q + g * lanes;
        t.c = scores + key * width + g * lanes;
        t.max = max + g * lanes;
        t.key_scales = key_scales == nullptr ? nullptr : key_scales + key;
        for (int m = 0; m < kAttentionMasks; ++m) {
          t.masks[m] = masks[m];
          if (masks[m].at == nullptr) continue;
          t.masks[m].at += key * masks[m].key + (masks[m].across ? 0 : g * lanes);
        }
        CallScoreTile(t, height, vectors);
      }
    }
  }
}

// The same for few queries, which would leave most lanes of Q' empty: here lanes are depths, and
// four queries meet two keys at a time. Q is `rows` rows of the depth rounded up to whole vectors.
void ScoresOfFew(const AttentionShape& s, const float* k, int64_t keys, const float* q,
                 int64_t rows, const float* key_scales, const TileMask masks[kAttentionMasks],
                 float* scores, float* max) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = LanesImpl();
  const int64_t ld = RoundUp(s.depth, lanes);
  for (int64_t r = 0; r < keys; r += 2) {
    const float* HWY_RESTRICT k0 = k + r * s.k.row;
    const float* HWY_RESTRICT k1 = k + HWY_MIN(r + 1, keys - 1) * s.k.row;
    for (int64_t g = 0; g < rows; g += 4) {
      const float* HWY_RESTRICT q0 = q + g * ld;  // past the last query: that one again
      const float* HWY_RESTRICT q1 = q + HWY_MIN(g + 1, rows - 1) * ld;
      const float* HWY_RESTRICT q2 = q + HWY_MIN(g + 2, rows - 1) * ld;
      const float* HWY_RESTRICT q3 = q + HWY_MIN(g + 3, rows - 1) * ld;
      V a0 = hn::Zero(d), a1 = hn::Zero(d), a2 = hn::Zero(d), a3 = hn::Zero(d);
      V b0 = hn::Zero(d), b1 = hn::Zero(d), b2 = hn::Zero(d), b3 = hn::Zero(d);
      for (int64_t i = 0; i < s.depth; i += lanes) {
        const size_t left = static_cast<size_t>(HWY_MIN(s.depth - i, lanes));
        const bool whole = left == static_cast<size_t>(lanes);
        const V x0 = whole ? hn::LoadU(d, k0 + i) : LoadTail(d, k0 + i, left);
        const V x1 = whole ? hn::LoadU(d, k1 + i) : LoadTail(d, k1 + i, left);
        const V y0 = hn::LoadU(d, q0 + i), y1 = hn::LoadU(d, q1 + i);
        const V y2 = hn::LoadU(d, q2 + i), y3 = hn::LoadU(d, q3 + i);
        a0 = hn::MulAdd(x0, y0, a0);
        a1 = hn::MulAdd(x0, y1, a1);
        a2 = hn::MulAdd(x0, y2, a2);
        a3 = hn::MulAdd(x0, y3, a3);
        b0 = hn::MulAdd(x1, y0, b0);
        b1 = hn::MulAdd(x1, y1, b1);
        b2 = hn::MulAdd(x1, y2, b2);
        b3 = hn::MulAdd(x1, y3, b3);
      }
      StoreSums(d, a0, a1, a2, a3, scores + r * lanes + g);
      if (r + 1 < keys) StoreSums(d, b0, b1, b2, b3, scores + (r + 1) * lanes + g);
    }
  }

  const auto queries = hn::FirstN(d, static_cast<size_t>(rows));
  V largest = hn::LoadU(d, max);
  for (int64_t r = 0; r < keys; ++r) {
    V x = hn::IfThenElseZero(queries, hn::LoadU(d, scores + r * lanes));
    if (key_scales != nullptr) x = hn::Mul(x, hn::Set(d, key_scales[r]));
    for (int i = 0; i < kAttentionMasks; ++i) {
      if (masks[i].at == nullptr) continue;
      const float* at = masks[i].at + r * masks[i].key;
      x = hn::Add(x, masks[i].across ? hn::Set(d, *at) : hn::LoadU(d, at));
    }
    hn::StoreU(x, d, scores + r * lanes);
    largest = hn::Max(largest, x);
  }
  hn::StoreU(largest, d, max);
}

// S becomes exp(S - max); the running maxima and sums take the block in, and `factors` is what
// weighted values of earlier blocks have to be multiplied by.
void Weights(int64_t keys, int64_t width, float* scores, const float* block_max, float* max,
             float* sum, float* factors) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = LanesImpl();
  for (int64_t j = 0; j < width; j += lanes) {
    const auto before = hn::LoadU(d, max + j);
    const auto now = hn::Max(before, hn::LoadU(d, block_max + j));
    // Without a finite score so far the weights are 0, not exp(-inf - -inf).
    const auto none = hn::Eq(now, hn::Set(d, -std::numeric_limits<float>::infinity()));
    const auto base = hn::IfThenZeroElse(none, now);
    const auto factor = ExpNeg(d, hn::Sub(before, base));
    float* HWY_RESTRICT at = scores + j;
    auto s0 = hn::Zero(d), s1 = hn::Zero(d);
    int64_t r = 0;
    for (; r + 2 <= keys; r += 2, at += 2 * width) {
      const auto e0 = ExpNeg(d, hn::Sub(hn::LoadU(d, at), base));
      const auto e1 = ExpNeg(d, hn::Sub(hn::LoadU(d, at + width), base));
      hn::StoreU(e0, d, at);
      hn::StoreU(e1, d, at + width);
      s0 = hn::Add(s0, e0);
      s1 = hn::Add(s1, e1);
    }
    if (r < keys) {
      const auto e = ExpNeg(d, hn::Sub(hn::LoadU(d, at), base));
      hn::StoreU(e, d, at);
      s0 = hn::Add(s0, e);
    }
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + j), factor, hn::Add(s0, s1)), d, sum + j);
    hn::StoreU(now, d, max + j);
    hn::StoreU(factor, d, factors + j);
  }
}

// The weighted values: of the first block, of one in the middle, or the last, which goes to Y.
void Context(const AttentionBlock& block, const float* v, const float* v_tail, int64_t keys,
             const float* scores, int64_t width, float* weighted, const float* factors,
             const float* inverse, bool first) {
  const AttentionShape& s = *block.shape;
  const int64_t lanes = LanesImpl();
  const int64_t ldc = RoundUp(s.value_depth, lanes);
  // A tail of V lies elsewhere, and makes a group of its own.
  const int64_t whole = s.value_depth / lanes;
  const int64_t tail = s.value_depth % lanes;
  const Groups groups = whole > 0 ? GroupsOf(whole) : Groups{0, 1};
  ContextTileArgs t;
  t.a_k = width;
  t.k = keys;
  t.ldc = ldc;
  t.ld_out = inverse != nullptr ? s.y.row : ldc;
  const auto columns = [&](int64_t g, int64_t vectors) HWY_ATTR {
    for (int64_t r = 0, rows = 0; r < block.rows; r += rows) {
      rows = TileRows(block.rows - r, vectors);
      t.a = scores + r;
      t.c = first ? nullptr : weighted + r * ldc + g * lanes;
      t.factors = factors + r;
      t.inverse = inverse == nullptr ? nullptr : inverse + r;
      t.out = (inverse != nullptr ? block.y : weighted) + r * t.ld_out + g * lanes;
      CallContextTile(t, rows, vectors);
    }
  };
  t.last_lanes = lanes;
  t.b_k = s.v.row;
  for (int64_t g = 0; g < groups.vectors; g += groups.size) {
    t.b = v + g * lanes;
    columns(g, HWY_MIN(groups.size, groups.vectors - g));
  }
  if (tail > 0) {
    t.b = v_tail;
    t.b_k = lanes;
    t.last_lanes = inverse != nullptr ? tail : lanes;
    columns(whole, 1);
  }
}

void AttendImpl(const AttentionBlock& block) {
  const hn::ScalableTag<float> d;
  const AttentionShape& s = *block.shape;
  const int64_t lanes = LanesImpl();
  const int64_t width = RoundUp(block.rows, lanes);
  const Parts parts = PartsOf(s);
  float* const w = block.workspace;
  float* const scores = w + parts.scores;
  float* const max = w + parts.max;
  float* const sum = w + parts.sum;
  float* const factors = w + parts.factors;
  LoadQueries(block, width, w + parts.q);
  const bool few = block.rows <= HWY_MIN(kFewQueries, lanes / 2) && s.k.depth == 1;
  if (few) {
    const int64_t ld = RoundUp(s.depth, lanes);
    Gather(w + parts.q, 1, width, block.rows, s.depth, ld, w + parts.q_rows);
  }
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t j = 0; j < width; j += lanes) {
    hn::StoreU(lowest, d, max + j);
    hn::StoreU(hn::Zero(d), d, sum + j);
  }

  // Blocks of keys of equal size, a whole number of tiles where there are several.
  const int64_t blocks = CeilDiv(s.n, kBlockKeys);
  const int64_t tall = TallRows(static_cast<int>(GroupsOf(width / lanes).size));
  const int64_t size = HWY_MIN(RoundUp(CeilDiv(s.n, blocks), tall), RoundUp(kBlockKeys, 8));
  for (int64_t key = 0; key < s.n; key += size) {
    const int64_t keys = HWY_MIN(size, s.n - key);
    const float* k = block.k + key * s.k.row;
    const float* v = block.v + key * s.v.row;
    const float* key_scales = nullptr;
    if (s.normalize) {
      KeyScales(s, k, keys, w + parts.key_scales);
      key_scales = w + parts.key_scales;
    }
    TileMask masks[kAttentionMasks];
    SetMasks(block, key, keys, width, w + parts.masks, masks);
    for (int64_t j = 0; j < width; j += lanes) hn::StoreU(lowest, d, w + parts.block_max + j);
    if (few) {
      ScoresOfFew(s, k, keys, w + parts.q_rows, block.rows, key_scales, masks, scores,
                  w + parts.block_max);
    } else {
      Scores(s, k, keys, w + parts.q, width, key_scales, masks, scores, w + parts.block_max);
    }
    Weights(keys, width, scores, w + parts.block_max, max, sum, factors);

    const float* inverse = nullptr;
    if (key + keys == s.n) {  // the maxima are not needed any more
      for (int64_t j = 0; j < width; j += lanes) {
        hn::StoreU(hn::Div(hn::Set(d, 1.0f), hn::LoadU(d, sum + j)), d, max + j);
      }
      inverse = max;
    }
    const int64_t tail = s.value_depth % lanes;
    if (tail > 0) {
      PackPanelCopy(v + s.value_depth - tail, s.v.row, keys, tail, lanes, w + parts.v_tail);
    }
    Context(block, v, w + parts.v_tail, keys, scores, width, w + parts.weighted, factors, inverse,
            key == 0);
  }
  if (s.rows_of_nan == RowsOfNaN::kZero) {
    for (int64_t r = 0; r < block.rows; ++r) {
      if (sum[r] > 0.0f) continue;  // 0: every score was -infinity
      for (int64_t j = 0; j < s.value_depth; ++j) block.y[r * s.y.row + j] = 0.0f;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {
namespace {
HWY_EXPORT(AttendImpl);
HWY_EXPORT(FloatsImpl);
HWY_EXPORT(LanesImpl);
}  // namespace

void AttendBlock(const AttentionBlock& block) { HWY_DYNAMIC_DISPATCH(AttendImpl)(block); }

size_t AttentionBlockFloats(const AttentionShape& shape) {
  return static_cast<size_t>(HWY_DYNAMIC_DISPATCH(FloatsImpl)(shape));
}

int64_t AttentionLanes() { return HWY_DYNAMIC_DISPATCH(LanesImpl)(); }

}  // namespace parallax::kernels
#endif  // HWY_ONCE
