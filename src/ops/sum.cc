// Sum: the elementwise sum of one or more tensors, with broadcasting (opset 8). Folded from the
// left.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindVariadic(c, kernels::BinaryOp::kAdd);
}

}  // namespace

OpDef op_sum() { return VariadicDef("Sum", kFloats, Bind); }

}  // namespace parallax::ops
