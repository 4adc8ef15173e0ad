// Shared parts of the Reduce* operators: axes as an attribute or an input, keepdims, empty axes.
//
// Role:       src/ops/reduce_*.cc are a schema and a kernel choice each.
// Threads:    pure.
#pragma once

#include <memory>

#include "kernels/reduce/reduce.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// `axes_input_since`: the opset from which the axes are an optional input instead of an attribute.
OpDef ReduceDef(std::string_view name, TypeSet types, int axes_input_since,
                Result<std::unique_ptr<Kernel>> (*bind)(BindContext&));
Result<std::unique_ptr<Kernel>> BindReduce(BindContext& c, kernels::ReduceOp op);

}  // namespace parallax::ops
