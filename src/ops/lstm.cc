// LSTM: a long short-term memory layer over a sequence, in one or two directions, with peepholes,
// initial states and lengths. f32 on SIMD, constant W and R packed once; f64 portable; f16 and bf16
// with everything between input and output in f32. Since opset 7; layout since 14.
#include "ops/core/recurrent_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) { return InferRecurrent(c, kernels::CellKind::kLstm); }
Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindRecurrent(c, kernels::CellKind::kLstm);
}

}  // namespace

OpDef op_lstm() {
  OpDef def = RecurrentDef("LSTM");
  def.inputs.push_back({"initial_c", kFloats, 'T', Arity::kOptional});
  def.inputs.push_back({"P", kFloats, 'T', Arity::kOptional});
  def.outputs.push_back({"Y_c", kFloats, 'T', Arity::kOptional});
  def.attributes.push_back({.name = "input_forget"});
  def.infer = Infer;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
