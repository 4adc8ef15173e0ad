// Binding of operators whose output is their input's bytes: views, when the runtime did not make
// them one, and plain strided copies.
//
// Role:       Reshape, Squeeze, Identity... copy only where a plan cannot alias them.
// Threads:    pure.
#pragma once

#include <memory>

#include "kernels/move/strided_copy.h"
#include "ops/core/bind_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Output 0 holds the bytes of input 0, unless both are the same buffer already.
Result<std::unique_ptr<Kernel>> BindView(BindContext& c);
// Output 0 is filled from input 0 by `plan`.
Result<std::unique_ptr<Kernel>> BindStridedCopy(BindContext& c, std::string name,
                                                const kernels::CopyPlan& plan);
// No arithmetic, only bytes.
Cost MoveCost(const CostContext& c);

}  // namespace parallax::ops
