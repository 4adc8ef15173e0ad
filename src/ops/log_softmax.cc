// LogSoftmax: x - log sum e^x along an axis. Opset 13 on: that axis alone, default -1; before: over
// all axes from `axis` (default 1) on, as one. f32, f64; f16 and bf16 computed in f32.
#include "ops/core/softmax_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindSoftmax(c, kernels::SoftmaxKind::kLogSoftmax);
}

}  // namespace

OpDef op_log_softmax() { return SoftmaxDef("LogSoftmax", Bind); }

}  // namespace parallax::ops
