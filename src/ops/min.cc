// Min: the elementwise minimum of one or more tensors, with broadcasting (opset 8); NaN wins.
// Integers since opset 12.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindVariadic(c, kernels::BinaryOp::kMin);
}

}  // namespace

OpDef op_min() { return VariadicDef("Min", kNumbers, Bind); }

}  // namespace parallax::ops
