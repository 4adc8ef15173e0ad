// Softmax: e^x / sum e^x along an axis. Opset 13 on: that axis alone, default -1; before: over all
// axes from `axis` (default 1) on, as one. f32, f64; f16 and bf16 computed in f32.
#include "ops/core/softmax_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindSoftmax(c, kernels::SoftmaxKind::kSoftmax);
}

}  // namespace

OpDef op_softmax() { return SoftmaxDef("Softmax", Bind); }

}  // namespace parallax::ops
