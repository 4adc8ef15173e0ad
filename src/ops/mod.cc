// Mod: the remainder of A / B with broadcasting: the sign of B, or of A when fmod = 1 (required for
// floats). An integer zero divisor is an error when it runs. Since opset 10.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, c.Int("fmod", 0) != 0 ? kernels::BinaryOp::kFmod : kernels::BinaryOp::kMod);
}

}  // namespace

OpDef op_mod() {
  OpDef def = BinaryDef("Mod", kNumbers, Bind);
  def.since = 10;
  def.attributes = {{.name = "fmod"}};
  return def;
}

}  // namespace parallax::ops
