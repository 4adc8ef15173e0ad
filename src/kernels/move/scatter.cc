#include "kernels/move/scatter.h"

#include <type_traits>

#include "kernels/elementwise/split.h"
#include "kernels/elementwise/unary_scalar.h"
#include "kernels/move/index.h"
#include "kernels/move/lines.h"
#include "kernels/move/words.h"

namespace parallax::kernels {
namespace {

// target = target op update.
template <ScatterReduction kReduction, class T>
void Apply(T& target, T update) {
  constexpr bool kAdds = kReduction == ScatterReduction::kAdd;
  if constexpr (kReduction == ScatterReduction::kNone) {
    target = update;
  } else if constexpr (std::is_same_v<T, bool>) {
    constexpr bool kOr = kAdds || kReduction == ScatterReduction::kMax;
    target = kOr ? (target | update) : (target & update);
  } else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    float value = target;
    Apply<kReduction, float>(value, update);
    target = T(value);
  } else if constexpr (kReduction == ScatterReduction::kMax) {
    target = target != target || target > update ? target : update;
  } else if constexpr (kReduction == ScatterReduction::kMin) {
    target = target != target || target < update ? target : update;
  } else if constexpr (std::is_integral_v<T>) {
    using W = Wrapping<T>;
    const W a = static_cast<W>(target);
    const W b = static_cast<W>(update);
    target = static_cast<T>(kAdds ? a + b : a * b);
  } else {
    target = kAdds ? target + update : target * update;
  }
}

// Calls f.operator()<kReduction, T>(); without a reduction T is a raw word.
template <class F>
void DispatchReduction(ScatterReduction reduction, DType dtype, F&& f) {
  using R = ScatterReduction;
  if (reduction == R::kNone) {
    return DispatchSize(SizeOf(dtype), [&]<class T>() { f.template operator()<R::kNone, T>(); });
  }
  DispatchType(dtype, [&]<class T>() {
    switch (reduction) {
      case R::kNone:
        return;
      case R::kAdd:
        return f.template operator()<R::kAdd, T>();
      case R::kMul:
        return f.template operator()<R::kMul, T>();
      case R::kMax:
        return f.template operator()<R::kMax, T>();
      case R::kMin:
        return f.template operator()<R::kMin, T>();
    }
  });
}

}  // namespace

void ScatterElements(ScatterReduction reduction, DType dtype, const Shape& data_shape,
                     const Shape& index_shape, int axis, DType index, const void* indices,
                     const void* updates, void* out, Team& team) {
  if (index_shape.elements() == 0) return;
  const Lines lines(data_shape, index_shape, axis);
  DispatchReduction(reduction, dtype, [&]<ScatterReduction kReduction, class T>() {
    DispatchIndex(index, [&]<class I>() {
      ForRanges(lines.count, RowsPerTask(lines.length), team, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          int64_t data_offset;
          int64_t index_offset;
          lines.Locate(line, data_offset, index_offset);
          const I* idx = static_cast<const I*>(indices) + index_offset;
          const T* src = static_cast<const T*>(updates) + index_offset;
          T* dst = static_cast<T*>(out) + data_offset;
          for (int64_t k = 0; k < lines.length; ++k) {
            const int64_t at = k * lines.index_step;
            Apply<kReduction, T>(dst[Wrapped(idx[at], lines.bound) * lines.data_step], src[at]);
          }
        }
      });
    });
  });
}

void ScatterNd(ScatterReduction reduction, DType dtype, int64_t n, int64_t width,
               const int64_t* bounds, int64_t inner, DType index, const void* indices,
               const void* updates, void* out, Team& team) {
  // Columns of a slice are independent whatever the indices; a task applies all updates to a few.
  constexpr int64_t kColumns = 1024;
  DispatchReduction(reduction, dtype, [&]<ScatterReduction kReduction, class T>() {
    DispatchIndex(index, [&]<class I>() {
      ForRanges(inner, kColumns, team, [&](int64_t begin, int64_t end) {
        const I* idx = static_cast<const I*>(indices);
        for (int64_t j = 0; j < n; ++j) {
          const T* src = static_cast<const T*>(updates) + j * inner;
          T* dst = static_cast<T*>(out) + TupleOffset(idx + j * width, width, bounds) * inner;
          for (int64_t c = begin; c < end; ++c) Apply<kReduction, T>(dst[c], src[c]);
        }
      });
    });
  });
}

}  // namespace parallax::kernels
