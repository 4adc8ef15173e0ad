// Sub: C = A - B with broadcasting. Integers wrap. Since opset 7 (with this broadcasting).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kSub);
}

}  // namespace

OpDef op_sub() { return BinaryDef("Sub", kNumbers, Bind); }

}  // namespace parallax::ops
