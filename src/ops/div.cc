// Div: C = A / B with broadcasting; integers truncate, and a zero divisor is an error when it runs.
// Since opset 7 (with this broadcasting).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kDiv);
}

}  // namespace

OpDef op_div() { return BinaryDef("Div", kNumbers, Bind); }

}  // namespace parallax::ops
