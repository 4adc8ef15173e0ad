// ReduceMax: the maximum (bool since opset 20: or) over axes.
// All axes when none are given, or none with noop_with_empty_axes. Axes: an attribute, an input
// since opset 18. Empty sets and integers: kernels/reduce/reduce.h.
#include "ops/core/reduce_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindReduce(c, kernels::ReduceOp::kMax);
}

}  // namespace

OpDef op_reduce_max() { return ReduceDef("ReduceMax", kAll, /*axes_input_since=*/18, Bind); }

}  // namespace parallax::ops
