// PRelu: X where X >= 0, else X slope; the slope broadcasts to X (unidirectional). Since opset 7
// (with this broadcasting); integers since 9.
#include "ops/core/dims.h"
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(c.SetSameAsInput(0, 0));
  if (c.rank(0) < 0 || c.rank(1) < 0) return {};
  PX_ASSIGN_OR_RETURN(Dims dims, BroadcastDimsOf(c.dims(0), c.dims(1)));
  if (dims.size() != c.dims(0).size()) {
    return Invalid("slope {} does not broadcast to {}", DimsToString(c.dims(1)),
                   DimsToString(c.dims(0)));
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].known() && c.dims(0)[i].known() && dims[i].extent != c.dims(0)[i].extent) {
      return Invalid("slope {} does not broadcast to {}", DimsToString(c.dims(1)),
                     DimsToString(c.dims(0)));
    }
  }
  return {};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindBinary(c, kernels::BinaryOp::kPRelu);
}

}  // namespace

OpDef op_p_relu() {
  OpDef def = BinaryDef("PRelu", kNumbers, Bind);
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
