// Max: the elementwise maximum of one or more tensors, with broadcasting (opset 8); NaN wins.
// Integers since opset 12.
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindVariadic(c, kernels::BinaryOp::kMax);
}

}  // namespace

OpDef op_max() { return VariadicDef("Max", kNumbers, Bind); }

}  // namespace parallax::ops
