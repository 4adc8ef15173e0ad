// Sub: C = A - B with broadcasting. Integers wrap. Since opset 7 (with this broadcasting).
#include "ops/core/dims.h"
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kSub);
}

// A difference is an extent only when it is known and not negative.
Result<Dim> Difference(const Dim& a, const Dim& b) {
  if (b == Dim(0)) return a;
  if (!a.known() || !b.known() || a.extent < b.extent) return Dim();
  return Dim(a.extent - b.extent);
}

Result<void> Infer(InferContext& c) { return InferDimArithmetic(c, Difference); }

}  // namespace

OpDef op_sub() {
  OpDef def = BinaryDef("Sub", kNumbers, Bind);
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
