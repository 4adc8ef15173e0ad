// Div: C = A / B with broadcasting; integers truncate, and a zero divisor is an error when it runs.
// Since opset 7 (with this broadcasting).
#include "ops/core/dims.h"
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kDiv);
}

Result<Dim> Quotient(const Dim& a, const Dim& b) {
  if (b == Dim(1)) return a;
  if (!a.known() || !b.known() || b.extent == 0) return Dim();
  return Dim(a.extent / b.extent);
}

Result<void> Infer(InferContext& c) { return InferDimArithmetic(c, Quotient); }

}  // namespace

OpDef op_div() {
  OpDef def = BinaryDef("Div", kNumbers, Bind);
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
