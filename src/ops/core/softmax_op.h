// Shared parts of Softmax, LogSoftmax and Hardmax.
#pragma once

#include <memory>

#include "kernels/norm/softmax.h"
#include "ops/core/axis.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// The lines the operator works along. REQUIRES: inference has checked the axis.
AxisView SoftmaxView(const NodeContext& c, const Shape& shape);
Result<std::unique_ptr<Kernel>> BindSoftmax(BindContext& c, kernels::SoftmaxKind kind);
OpDef SoftmaxDef(std::string_view name, Result<std::unique_ptr<Kernel>> (*bind)(BindContext&));

}  // namespace parallax::ops
