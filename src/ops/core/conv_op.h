// Shared parts of Conv and its fused form.
#pragma once

#include <optional>
#include <vector>

#include "kernels/conv/conv.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Input 0 is X, 1 the weights [out, in/group, kernel...], 2 the optional bias. `channels`: of the
// input, where those of X are not what counts.
Result<void> InferConv(InferContext& c, kernels::ConvLayout layout,
                       std::optional<Dim> channels = std::nullopt);
Cost ConvCost(const CostContext& c);
Result<kernels::ConvShape> ConvShapeOf(const BindContext& c, kernels::ConvLayout layout);
std::vector<AttributeDef> ConvAttributes();

}  // namespace parallax::ops
