// BitShift: A shifted by B bits, LEFT or RIGHT, with broadcasting; by the width or more gives 0.
// Since opset 11.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.String("direction") != "LEFT" && c.String("direction") != "RIGHT") {
    return Invalid("direction is '{}', should be LEFT or RIGHT", c.String("direction"));
  }
  return InferBroadcast(c);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, c.String("direction") == "LEFT" ? kernels::BinaryOp::kShiftLeft
                                                       : kernels::BinaryOp::kShiftRight);
}

}  // namespace

OpDef op_bit_shift() {
  OpDef def = BinaryDef("BitShift", kUnsignedInts, Bind);
  def.since = 11;
  def.attributes = {{.name = "direction", .type = AttributeType::kString, .required = true}};
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
