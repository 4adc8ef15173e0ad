// Abs: y = |x|, elementwise; the lowest signed integer stays itself. Since opset 1; integers
// since 6.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kAbs);
}

}  // namespace

OpDef op_abs() { return UnaryDef("Abs", kNumbers, Bind); }

}  // namespace parallax::ops
