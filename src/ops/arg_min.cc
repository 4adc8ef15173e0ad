// ArgMin: the index of the smallest element along `axis` (default 0); of equal ones the first, or
// the last with select_last_index (opset 12). Since opset 1.
#include "ops/core/arg_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) { return BindArg(c, kernels::ArgOp::kMin); }

}  // namespace

OpDef op_arg_min() { return ArgDef("ArgMin", Bind); }

}  // namespace parallax::ops
