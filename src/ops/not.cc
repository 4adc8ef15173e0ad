// Not: logical negation, elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kNot);
}

}  // namespace

OpDef op_not() { return UnaryDef("Not", kBools, Bind); }

}  // namespace parallax::ops
