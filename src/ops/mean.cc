// Mean: the elementwise mean of one or more tensors, with broadcasting (opset 8).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindVariadic(c, kernels::BinaryOp::kAdd, /*mean=*/true);
}

}  // namespace

OpDef op_mean() { return VariadicDef("Mean", kFloats, Bind); }

}  // namespace parallax::ops
