// Neg: y = -x, elementwise; the lowest signed integer stays itself. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kNeg);
}

}  // namespace

OpDef op_neg() { return UnaryDef("Neg", kFloats | kSignedInts, Bind); }

}  // namespace parallax::ops
