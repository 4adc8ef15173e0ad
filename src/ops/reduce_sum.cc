// ReduceSum: the sum over axes.
// All axes when none are given, or none with noop_with_empty_axes. Axes: an attribute, an input
// since opset 13. Empty sets and integers: kernels/reduce/reduce.h.
#include "ops/core/reduce_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindReduce(c, kernels::ReduceOp::kSum);
}

}  // namespace

OpDef op_reduce_sum() { return ReduceDef("ReduceSum", kNumbers, /*axes_input_since=*/13, Bind); }

}  // namespace parallax::ops
