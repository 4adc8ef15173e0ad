// Add: C = A + B with broadcasting. Integers wrap. Since opset 7 (with this broadcasting).
#include "ops/core/dims.h"
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kAdd);
}

Result<void> Infer(InferContext& c) { return InferDimArithmetic(c, AddDims); }

}  // namespace

OpDef op_add() {
  OpDef def = BinaryDef("Add", kNumbers, Bind);
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
