// And: logical and with broadcasting. Since opset 7 (with this broadcasting).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kAnd);
}

}  // namespace

OpDef op_and() { return BinaryDef("And", kBools, Bind); }

}  // namespace parallax::ops
