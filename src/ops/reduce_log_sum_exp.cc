// ReduceLogSumExp: the logarithm of the sum of exponentials, without overflow over axes.
// All axes when none are given, or none with noop_with_empty_axes. Axes: an attribute, an input
// since opset 18. Empty sets and integers: kernels/reduce/reduce.h.
#include "ops/core/reduce_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindReduce(c, kernels::ReduceOp::kLogSumExp);
}

}  // namespace

OpDef op_reduce_log_sum_exp() {
  return ReduceDef("ReduceLogSumExp", kNumbers, /*axes_input_since=*/18, Bind);
}

}  // namespace parallax::ops
