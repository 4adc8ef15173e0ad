// Shared parts of ArgMax and ArgMin.
#pragma once

#include <memory>

#include "kernels/reduce/arg_reduce.h"
#include "ops/core/bind_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

Result<std::unique_ptr<Kernel>> BindArg(BindContext& c, kernels::ArgOp op);
OpDef ArgDef(std::string_view name, Result<std::unique_ptr<Kernel>> (*bind)(BindContext&));

}  // namespace parallax::ops
