// Mul: C = A B, elementwise, with broadcasting. Integers wrap. Since opset 7 (with this
// broadcasting).
#include "ops/core/dims.h"
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kMul);
}

Result<void> Infer(InferContext& c) { return InferDimArithmetic(c, MulDims); }

}  // namespace

OpDef op_mul() {
  OpDef def = BinaryDef("Mul", kNumbers, Bind);
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
