// Relu: y = max(x, 0), elementwise. Since opset 1; signed integers since 14.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kRelu);
}

}  // namespace

OpDef op_relu() { return UnaryDef("Relu", kFloats | kSignedInts, Bind); }

}  // namespace parallax::ops
