// Windowed f32 pools on patches (conv/patch.h): a depthwise convolution with max or + for *.
//
// Role:       internal to pool; rank 1..3 without indices.
// Ownership, Threads, Invariants: as pool.h.
// Cost:       one vector operation a kernel element for each vector of outputs.
#pragma once

#include "kernels/conv/patch.h"
#include "kernels/pool/pool.h"

namespace parallax::kernels {

struct WindowPlan {
  bool supported = false;
  int64_t rows_per_task = 0, columns_per_task = 0, planes_per_task = 0;
};

// Not supported: ranks above 3, kernels whose patch of a few columns would not fit on the stack.
WindowPlan PlanWindow(const PoolShape& shape);

void WindowMax(const PoolShape& shape, const WindowPlan& plan, const float* input, float* output,
               Team& team);
void WindowAverage(const PoolShape& shape, const WindowPlan& plan, const float* input,
                   float* output, PadCount count, Team& team);

// p is 1 or 2.
void WindowLp(const PoolShape& shape, const WindowPlan& plan, const float* input, float* output,
              int64_t p, Team& team);

}  // namespace parallax::kernels
