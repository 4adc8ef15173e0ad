// Floor: the largest integer not above x, elementwise. Since opset 1.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kFloor);
}

}  // namespace

OpDef op_floor() { return UnaryDef("Floor", kFloats, Bind); }

}  // namespace parallax::ops
