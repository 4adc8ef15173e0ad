// Mul: C = A B, elementwise, with broadcasting. Integers wrap. Since opset 7 (with this
// broadcasting).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kMul);
}

}  // namespace

OpDef op_mul() { return BinaryDef("Mul", kNumbers, Bind); }

}  // namespace parallax::ops
