#include "kernels/reduce/arg_reduce.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/split.h"
#include "kernels/elementwise/unary_scalar.h"
#include "kernels/reduce/reduce_f32.h"

namespace parallax::kernels {
namespace {

// Whether `x` takes the place of `best`, met earlier. NaN beats every number; of two NaN, as of two
// equal numbers, `ties` decides.
template <ArgOp kOp, Ties kTies, class V>
bool Beats(V x, V best) {
  if constexpr (std::is_floating_point_v<V>) {
    if (best != best) return kTies == Ties::kLast && x != x;
    if (x != x) return true;
  }
  if constexpr (kTies == Ties::kLast) {
    return kOp == ArgOp::kMax ? x >= best : x <= best;
  } else {
    return kOp == ArgOp::kMax ? x > best : x < best;
  }
}

// Lines along memory. f32 finds the value first, on SIMD, then its place.
template <ArgOp kOp, Ties kTies, class T>
int64_t ArgLine(const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    constexpr Extreme kExtreme = kOp == ArgOp::kMax ? Extreme::kMax : Extreme::kMin;
    const float best = ExtremeF32(kExtreme, x, n, x[0]);
    const auto matches = [best](float v) { return v == best || (v != v && best != best); };
    if constexpr (kTies == Ties::kFirst) {
      return std::find_if(x, x + n, matches) - x;
    } else {
      int64_t i = n - 1;
      while (!matches(x[i])) --i;
      return i;
    }
  } else {
    using V = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, T>;
    V best = x[0];
    int64_t at = 0;
    for (int64_t i = 1; i < n; ++i) {
      const V v = x[i];
      if (Beats<kOp, kTies>(v, best)) {
        best = v;
        at = i;
      }
    }
    return at;
  }
}

// Neighbours across memory that are handled together.
constexpr int64_t kColumns = 256;

// Lines across memory, cols <= kColumns of them.
template <ArgOp kOp, Ties kTies, class T>
void ArgColumns(const T* x, int64_t axis, int64_t stride, int64_t cols, int64_t* out) {
  using V = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, T>;
  V best[kColumns];
  int64_t at[kColumns] = {};
  for (int64_t c = 0; c < cols; ++c) best[c] = x[c];
  for (int64_t i = 1; i < axis; ++i) {
    const T* row = x + i * stride;
    for (int64_t c = 0; c < cols; ++c) {
      const V v = row[c];
      const bool beats = Beats<kOp, kTies>(v, best[c]);
      best[c] = beats ? v : best[c];
      at[c] = beats ? i : at[c];
    }
  }
  std::copy(at, at + cols, out);
}

template <ArgOp kOp, Ties kTies, class T>
void ArgTyped(int64_t outer, int64_t axis, int64_t inner, const T* in, int64_t* out, Team& team) {
  if (inner == 1) {
    return ForRanges(outer, RowsPerTask(axis), team, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) out[o] = ArgLine<kOp, kTies>(in + o * axis, axis);
    });
  }
  const int64_t blocks = CeilDiv(inner, kColumns);
  const int64_t work = axis * std::min(inner, kColumns);
  ForRanges(outer * blocks, RowsPerTask(work), team, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t o = task / blocks;
      const int64_t col = task % blocks * kColumns;
      ArgColumns<kOp, kTies>(in + o * axis * inner + col, axis, inner,
                             std::min(kColumns, inner - col), out + o * inner + col);
    }
  });
}

// Running sums of cols <= kColumns neighbouring lines.
template <class T, class Acc>
void SumColumns(const T* in, T* out, int64_t axis, int64_t inner, int64_t cols, CumSumEnd end,
                CumSumOrder order) {
  Acc acc[kColumns] = {};
  for (int64_t k = 0; k < axis; ++k) {
    const int64_t row = (order == CumSumOrder::kForward ? k : axis - 1 - k) * inner;
    for (int64_t c = 0; c < cols; ++c) {
      const Acc before = acc[c];
      acc[c] = before + static_cast<Acc>(in[row + c]);
      out[row + c] = static_cast<T>(end == CumSumEnd::kExclusive ? before : acc[c]);
    }
  }
}

template <class T>
struct CumSumAcc {
  using type = Wrapping<T>;
};
template <>
struct CumSumAcc<float> {
  using type = double;
};
template <>
struct CumSumAcc<double> {
  using type = double;
};
template <>
struct CumSumAcc<F16> {
  using type = float;
};
template <>
struct CumSumAcc<BF16> {
  using type = float;
};

}  // namespace

void ArgReduce(ArgOp op, Ties ties, DType dtype, int64_t outer, int64_t axis, int64_t inner,
               const void* in, int64_t* out, Team& team) {
  if (axis == 0 || inner == 0) return;
  DispatchType(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(in);
    if (op == ArgOp::kMax && ties == Ties::kFirst) {
      ArgTyped<ArgOp::kMax, Ties::kFirst>(outer, axis, inner, x, out, team);
    } else if (op == ArgOp::kMax) {
      ArgTyped<ArgOp::kMax, Ties::kLast>(outer, axis, inner, x, out, team);
    } else if (ties == Ties::kFirst) {
      ArgTyped<ArgOp::kMin, Ties::kFirst>(outer, axis, inner, x, out, team);
    } else {
      ArgTyped<ArgOp::kMin, Ties::kLast>(outer, axis, inner, x, out, team);
    }
  });
}

void CumSum(DType dtype, int64_t outer, int64_t axis, int64_t inner, const void* in, void* out,
            CumSumEnd end, CumSumOrder order, Team& team) {
  if (axis == 0 || inner == 0) return;
  const int64_t blocks = CeilDiv(inner, kColumns);
  DispatchType(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      const int64_t work = axis * std::min(inner, kColumns);
      ForRanges(outer * blocks, RowsPerTask(work), team, [&](int64_t from, int64_t to) {
        for (int64_t task = from; task < to; ++task) {
          const int64_t col = task % blocks * kColumns;
          const int64_t offset = task / blocks * axis * inner + col;
          SumColumns<T, typename CumSumAcc<T>::type>(static_cast<const T*>(in) + offset,
                                                     static_cast<T*>(out) + offset, axis, inner,
                                                     std::min(kColumns, inner - col), end, order);
        }
      });
    }
  });
}

}  // namespace parallax::kernels
