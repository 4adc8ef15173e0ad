// Xor: logical xor with broadcasting. Since opset 7 (with this broadcasting).
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kXor);
}

}  // namespace

OpDef op_xor() { return BinaryDef("Xor", kBools, Bind); }

}  // namespace parallax::ops
