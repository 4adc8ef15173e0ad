// ArgMax: the index of the largest element along `axis` (default 0); of equal ones the first, or
// the last with select_last_index (opset 12). Since opset 1.
#include "ops/core/arg_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) { return BindArg(c, kernels::ArgOp::kMax); }

}  // namespace

OpDef op_arg_max() { return ArgDef("ArgMax", Bind); }

}  // namespace parallax::ops
