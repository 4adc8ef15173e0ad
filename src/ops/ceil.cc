// Ceil: the least integer not below x, elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kCeil);
}

}  // namespace

OpDef op_ceil() { return UnaryDef("Ceil", kFloats, Bind); }

}  // namespace parallax::ops
