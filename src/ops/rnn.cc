// RNN: a simple recurrent layer over a sequence, in one or two directions, with initial state and
// lengths. f32 on SIMD, constant W and R packed once; f64 portable; f16 and bf16 with everything
// between input and output in f32. Since opset 7; layout since 14.
#include "ops/core/recurrent_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) { return InferRecurrent(c, kernels::CellKind::kRnn); }
Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindRecurrent(c, kernels::CellKind::kRnn);
}

}  // namespace

OpDef op_rnn() {
  OpDef def = RecurrentDef("RNN");
  def.infer = Infer;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
