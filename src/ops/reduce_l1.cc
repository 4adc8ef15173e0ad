// ReduceL1: the sum of absolute values over axes.
// All axes when none are given, or none with noop_with_empty_axes. Axes: an attribute, an input
// since opset 18. Empty sets and integers: kernels/reduce/reduce.h.
#include "ops/core/reduce_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindReduce(c, kernels::ReduceOp::kL1);
}

}  // namespace

OpDef op_reduce_l1() { return ReduceDef("ReduceL1", kNumbers, /*axes_input_since=*/18, Bind); }

}  // namespace parallax::ops
