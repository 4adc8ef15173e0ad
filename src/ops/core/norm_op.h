// Shared parts of the normalisation operators.
#pragma once

#include "ops/core/axis.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Input i, if given, has the extents of input 0 from `axis` on (leading extents of 1 allowed).
Result<void> CheckTrailingParam(const InferContext& c, int i, int axis);
// Input i is a vector of the channels: extent 1 of input 0, which has at least rank 2.
Result<void> CheckChannelParam(const InferContext& c, int i);
// About eight operations an element: two statistics passes and the scaling.
Cost NormCost(const CostContext& c);

}  // namespace parallax::ops
