#include "kernels/elementwise/where.h"

#include "kernels/elementwise/broadcast_run.h"

namespace parallax::kernels {
namespace {

template <class T>
void WhereTyped(const BroadcastPlan3& plan, const bool* cond, const T* a, const T* b, T* out,
                Team& team) {
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  const int64_t step_c = plan.stride[0][last];
  const int64_t step_a = plan.stride[1][last];
  const int64_t step_b = plan.stride[2][last];
  ForBroadcastRows(plan, team, [&](int64_t at, const std::array<int64_t, 3>& offset, int64_t n) {
    const bool* c = cond + offset[0];
    const T* x = a + offset[1];
    const T* y = b + offset[2];
    T* z = out + at;
    if (step_c == 0) {  // one side for the whole row
      const T* from = *c ? x : y;
      const int64_t step = *c ? step_a : step_b;
      for (int64_t i = 0; i < n; ++i) z[i] = from[i * step];
    } else if (step_a == 1 && step_b == 1) {
      for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i] : y[i];
    } else if (step_a == 1) {
      const T value = *y;
      for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i] : value;
    } else if (step_b == 1) {
      const T value = *x;
      for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? value : y[i];
    } else {
      const T yes = *x;
      const T no = *y;
      for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? yes : no;
    }
  });
}

}  // namespace

void Where(size_t elem_size, const BroadcastPlan3& plan, const bool* cond, const void* a,
           const void* b, void* out, Team& team) {
  const auto run = [&]<class T>() {
    WhereTyped<T>(plan, cond, static_cast<const T*>(a), static_cast<const T*>(b),
                  static_cast<T*>(out), team);
  };
  switch (elem_size) {
    case 1:
      return run.template operator()<uint8_t>();
    case 2:
      return run.template operator()<uint16_t>();
    case 4:
      return run.template operator()<uint32_t>();
    default:
      return run.template operator()<uint64_t>();
  }
}

}  // namespace parallax::kernels
