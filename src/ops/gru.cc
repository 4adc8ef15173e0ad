// GRU: a gated recurrent layer over a sequence, in one or two directions, with initial state and
// lengths; the reset gate before or after the recurrent product (linear_before_reset). f32 on SIMD,
// constant W and R packed once; f64 portable; f16 and bf16 with everything between input and output
// in f32. Since opset 7; layout since 14.
#include "ops/core/recurrent_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) { return InferRecurrent(c, kernels::CellKind::kGru); }
Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindRecurrent(c, kernels::CellKind::kGru);
}

}  // namespace

OpDef op_gru() {
  OpDef def = RecurrentDef("GRU");
  def.attributes.push_back({.name = "linear_before_reset"});
  def.infer = Infer;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
