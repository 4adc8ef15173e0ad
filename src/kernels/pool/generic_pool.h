// GenericMaxPool, GenericAveragePool, GenericLpPool: the pools of pool.h for any element type, in
// portable C++.
//
// Role:       pooling of f64, 8-bit integers and 16-bit floats; f32 ranks and indices that the
//             vectorised paths do not take.
// Ownership:  borrows every pointer for the call; needs no workspace and allocates nothing.
// Threads:    pure apart from the outputs; one call uses one Team.
// Cost:       one comparison or addition an input element under a window.
// Invariants: those of pool.h.
// Example:
//   GenericMaxPool<uint8_t>(shape, x, y, nullptr, IndexOrder::kRowMajor, team);
//   GenericAveragePool<float>(shape, x_f16, y_f16, PadCount::kExclude, team);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/checked.h"
#include "kernels/conv/generic_conv.h"
#include "kernels/pool/pool.h"

namespace parallax::kernels {

namespace internal {

// The window of output position `at`: origins, and kernel positions inside the input.
struct PoolWindow {
  int64_t origin[kMaxSpatial];
  TapRange range[kMaxSpatial];
  bool empty = false;

  PoolWindow(const PoolShape& s, int64_t position) {
    int64_t at[kMaxSpatial];
    Unravel(position, s.out, s.rank, at);
    for (int i = 0; i < s.rank; ++i) {
      origin[i] = at[i] * s.strides[i] - s.pads_begin[i];
      range[i] = ClipTaps(origin[i], s.dilations[i], s.kernel[i], s.in[i]);
      empty = empty || range[i].begin == range[i].end;
    }
  }

  // Kernel elements that lie in the input and its padding: the divisor of PadCount::kInclude.
  int64_t PaddedElements(const PoolShape& s) const {
    int64_t n = 1;
    for (int i = 0; i < s.rank; ++i) {
      const int64_t end = s.in[i] + s.pads_end[i];
      n *= std::max<int64_t>(
          0, std::min(s.kernel[i], CeilDiv(std::max<int64_t>(end - origin[i], 0), s.dilations[i])));
    }
    return n;
  }

  int64_t InputElements(const PoolShape& s) const {
    int64_t n = 1;
    for (int i = 0; i < s.rank; ++i) n *= range[i].end - range[i].begin;
    return n;
  }

  // Calls f(offset in the plane) for every input element of the window, in row-major order.
  template <class F>
  void ForEach(const PoolShape& s, F&& f) const {
    if (empty) return;
    int64_t tap[kMaxSpatial];
    for (int i = 0; i < s.rank; ++i) tap[i] = range[i].begin;
    const int inner = s.rank - 1;
    while (true) {
      int64_t row = 0;
      for (int i = 0; i < inner; ++i) row = row * s.in[i] + origin[i] + tap[i] * s.dilations[i];
      row = row * s.in[inner] + origin[inner];
      for (int64_t t = range[inner].begin; t < range[inner].end; ++t) {
        f(row + t * s.dilations[inner]);
      }
      int i = inner - 1;
      while (i >= 0 && ++tap[i] == range[i].end) {
        tap[i] = range[i].begin;
        --i;
      }
      if (i < 0) break;
    }
  }
};

template <class T>
int64_t Product(const T* extents, int rank) {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= extents[i];
  return n;
}

}  // namespace internal

// A window without input elements gives the lowest value of T (-infinity for floats), index 0 of
// its plane.
template <class T>
void GenericMaxPool(const PoolShape& s, const T* x, T* y, int64_t* indices, IndexOrder order,
                    Team& team) {
  const int64_t in_size = internal::Product(s.in, s.rank);
  const int64_t out_size = internal::Product(s.out, s.rank);
  if (out_size == 0) return;
  // Compared as `C`: F16 and BF16 widen to float exactly.
  using C = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  constexpr C kLowest = std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity()
                                                    : std::numeric_limits<C>::lowest();
  team.Run(s.batch * s.channels, [&](int64_t plane, int) {
    const T* in = x + plane * in_size;
    for (int64_t o = 0; o < out_size; ++o) {
      const internal::PoolWindow window(s, o);
      C best = kLowest;
      int64_t best_at = -1;
      window.ForEach(s, [&](int64_t at) {
        const C v = static_cast<C>(in[at]);
        // v != v: a NaN wins, and stays.
        if (best_at < 0 || v > best || (v != v && best == best)) {
          best = v;
          best_at = at;
        }
      });
      y[plane * out_size + o] = static_cast<T>(best);
      if (indices == nullptr) continue;
      if (best_at < 0) best_at = 0;
      if (order == IndexOrder::kColumnMajor) {
        int64_t at[kMaxSpatial];
        internal::Unravel(best_at, s.in, s.rank, at);
        best_at = 0;
        for (int i = s.rank - 1; i >= 0; --i) best_at = best_at * s.in[i] + at[i];
      }
      indices[plane * out_size + o] = plane * in_size + best_at;
    }
  });
}

// Sums in Acc, divides, then converts to T.
template <class Acc, class T>
void GenericAveragePool(const PoolShape& s, const T* x, T* y, PadCount count, Team& team) {
  const int64_t in_size = internal::Product(s.in, s.rank);
  const int64_t out_size = internal::Product(s.out, s.rank);
  if (out_size == 0) return;
  team.Run(s.batch * s.channels, [&](int64_t plane, int) {
    const T* in = x + plane * in_size;
    for (int64_t o = 0; o < out_size; ++o) {
      const internal::PoolWindow window(s, o);
      Acc sum = Acc(0);
      window.ForEach(s,
                     [&](int64_t at) { sum = static_cast<Acc>(sum + static_cast<Acc>(in[at])); });
      const int64_t n =
          count == PadCount::kInclude ? window.PaddedElements(s) : window.InputElements(s);
      y[plane * out_size + o] =
          window.empty || n == 0 ? T{} : static_cast<T>(sum / static_cast<Acc>(n));
    }
  });
}

// Sums |x|^p in Acc, float or double. p >= 1.
template <class Acc, class T>
void GenericLpPool(const PoolShape& s, const T* x, T* y, int64_t p, Team& team) {
  const int64_t in_size = internal::Product(s.in, s.rank);
  const int64_t out_size = internal::Product(s.out, s.rank);
  if (out_size == 0) return;
  const Acc power = static_cast<Acc>(p);
  team.Run(s.batch * s.channels, [&](int64_t plane, int) {
    const T* in = x + plane * in_size;
    for (int64_t o = 0; o < out_size; ++o) {
      const internal::PoolWindow window(s, o);
      Acc sum = Acc(0);
      window.ForEach(s, [&](int64_t at) {
        const Acc v = std::abs(static_cast<Acc>(in[at]));
        sum += p == 1 ? v : p == 2 ? v * v : std::pow(v, power);
      });
      const Acc root = p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / power);
      y[plane * out_size + o] = static_cast<T>(root);
    }
  });
}

}  // namespace parallax::kernels
