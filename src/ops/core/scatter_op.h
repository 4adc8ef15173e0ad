// Shared parts of the operators that read or write at element indices.
#pragma once

#include <memory>

#include "kernels/move/scatter.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Inputs 0 (data) and 1 (indices) have one rank, and indices are no larger on any axis but `axis`.
Result<void> CheckElementIndices(const InferContext& c);
// The attribute `reduction` of Scatter*.
Result<kernels::ScatterReduction> ReductionOf(const NodeContext& c);
// ScatterElements under either of its names.
OpDef ScatterElementsDef(std::string_view name);

}  // namespace parallax::ops
