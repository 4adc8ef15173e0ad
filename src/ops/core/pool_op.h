// Shared parts of the pooling operators.
#pragma once

#include "kernels/pool/pool.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/window.h"

namespace parallax::ops {

// Output 0 (and output 1, if wanted) of a windowed pool.
Result<void> InferPool(InferContext& c);  // channels first
Result<void> InferPool(InferContext& c, kernels::ConvLayout layout);
// Output 0 of a global pool: spatial extents become 1.
Result<void> InferGlobalPool(InferContext& c);
Result<kernels::PoolShape> PoolShapeOf(
    const BindContext& c, kernels::ConvLayout layout = kernels::ConvLayout::kChannelsFirst);
// A global pool of an [N, C, spatial...] input as one window over each flattened plane.
kernels::PoolShape GlobalPoolShape(const Shape& x);
// Kernel elements an output.
Cost PoolCost(const CostContext& c);
Cost GlobalPoolCost(const CostContext& c);

}  // namespace parallax::ops
