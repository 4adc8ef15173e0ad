// Or: logical or with broadcasting. Since opset 7 (with this broadcasting).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kOr);
}

}  // namespace

OpDef op_or() { return BinaryDef("Or", kBools, Bind); }

}  // namespace parallax::ops
