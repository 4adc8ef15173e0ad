#include "kernels/reduce/top_k.h"

#include <algorithm>
#include <type_traits>

#include "kernels/elementwise/split.h"

namespace parallax::kernels {
namespace {

// Whether element i comes before element j. A strict total order: equal values by index.
template <TopKOrder kOrder, class T>
struct Before {
  using V = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, T>;
  const T* line;
  int64_t step;

  // NaN above every number.
  static bool Greater(V a, V b) {
    if constexpr (std::is_floating_point_v<V>) {
      if (a != a) return b == b;
    }
    return a > b;
  }
  bool operator()(int64_t i, int64_t j) const {
    const V a = line[i * step];
    const V b = line[j * step];
    if (kOrder == TopKOrder::kLargest ? Greater(a, b) : Greater(b, a)) return true;
    if (kOrder == TopKOrder::kLargest ? Greater(b, a) : Greater(a, b)) return false;
    return i < j;
  }
};

// The k first of n by `before`, in order, into best[0 .. k): a heap whose top is the last of them.
template <class B>
void SelectFirst(const B& before, int64_t n, int64_t k, int64_t* best) {
  for (int64_t i = 0; i < k; ++i) best[i] = i;
  std::make_heap(best, best + k, before);
  for (int64_t i = k; i < n; ++i) {
    if (!before(i, best[0])) continue;
    // Replace the top and let it sink.
    int64_t at = 0;
    while (true) {
      int64_t child = 2 * at + 1;
      if (child >= k) break;
      if (child + 1 < k && before(best[child], best[child + 1])) ++child;
      if (!before(i, best[child])) break;
      best[at] = best[child];
      at = child;
    }
    best[at] = i;
  }
  std::sort_heap(best, best + k, before);
}

template <TopKOrder kOrder, class T>
void TopKTyped(int64_t outer, int64_t axis, int64_t inner, int64_t k, const T* in, T* values,
               int64_t* indices, int64_t* workspace, Team& team) {
  // Tasks need to know their worker, so not ForRanges.
  const int64_t lines = outer * inner;
  const int64_t grain = RowsPerTask(axis);
  team.Run(CeilDiv(lines, grain), [&](int64_t task, int worker) {
    int64_t* best = workspace + worker * k;
    for (int64_t line = task * grain; line < std::min(lines, (task + 1) * grain); ++line) {
      const int64_t o = line / inner;
      const int64_t i = line % inner;
      const T* from = in + o * axis * inner + i;
      SelectFirst(Before<kOrder, T>{from, inner}, axis, k, best);
      const int64_t to = o * k * inner + i;
      for (int64_t r = 0; r < k; ++r) {
        if (values != nullptr) values[to + r * inner] = from[best[r] * inner];
        if (indices != nullptr) indices[to + r * inner] = best[r];
      }
    }
  });
}

}  // namespace

size_t TopKWorkspaceBytes(int64_t k, int team_size) {
  return static_cast<size_t>(k) * static_cast<size_t>(team_size) * sizeof(int64_t);
}

void TopK(TopKOrder order, DType dtype, int64_t outer, int64_t axis, int64_t inner, int64_t k,
          const void* in, void* values, int64_t* indices, void* workspace, Team& team) {
  if (k == 0 || outer == 0 || inner == 0) return;
  DispatchType(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      const T* x = static_cast<const T*>(in);
      T* v = static_cast<T*>(values);
      int64_t* best = static_cast<int64_t*>(workspace);
      if (order == TopKOrder::kLargest) {
        TopKTyped<TopKOrder::kLargest>(outer, axis, inner, k, x, v, indices, best, team);
      } else {
        TopKTyped<TopKOrder::kSmallest>(outer, axis, inner, k, x, v, indices, best, team);
      }
    }
  });
}

}  // namespace parallax::kernels
