#include "kernels/pool/pool.h"

#include "kernels/pool/generic_pool.h"
#include "kernels/pool/window_pool.h"

namespace parallax::kernels {

void MaxPool(const PoolShape& shape, const float* input, float* output, int64_t* indices,
             IndexOrder order, Team& team) {
  const WindowPlan plan = indices == nullptr ? PlanWindow(shape) : WindowPlan();
  if (plan.supported) {
    WindowMax(shape, plan, input, output, team);
  } else {
    GenericMaxPool<float>(shape, input, output, indices, order, team);
  }
}

void AveragePool(const PoolShape& shape, const float* input, float* output, PadCount count,
                 Team& team) {
  const WindowPlan plan = PlanWindow(shape);
  if (plan.supported) {
    WindowAverage(shape, plan, input, output, count, team);
  } else {
    GenericAveragePool<float>(shape, input, output, count, team);
  }
}

void LpPool(const PoolShape& shape, const float* input, float* output, int64_t p, Team& team) {
  const WindowPlan plan = p <= 2 ? PlanWindow(shape) : WindowPlan();
  if (plan.supported) {
    WindowLp(shape, plan, input, output, p, team);
  } else {
    GenericLpPool<double>(shape, input, output, p, team);
  }
}

}  // namespace parallax::kernels
