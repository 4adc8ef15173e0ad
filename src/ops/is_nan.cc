// IsNaN: whether x is NaN, elementwise, as bool. Since opset 9.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindUnary(c, kernels::UnaryOp::kIsNaN);
}

}  // namespace

OpDef op_is_nan() {
  OpDef def = UnaryDef("IsNaN", kFloats, Bind);
  def.since = 9;
  def.outputs = {{"Y", kBools}};
  def.aliases = {};
  return def;
}

}  // namespace parallax::ops
