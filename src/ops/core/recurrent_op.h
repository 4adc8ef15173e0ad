// Shared parts of RNN, GRU and LSTM: schema, attributes, inference, cost, binding.
//
// Role:       the operator files add what only they have and name their cell.
// Threads:    pure.
// Example:    src/ops/gru.cc.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/recurrent/recurrent.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Inputs X W R B sequence_lens initial_h, outputs Y Y_h, and the attributes that all three have.
OpDef RecurrentDef(std::string_view name);

Result<void> InferRecurrent(InferContext& c, kernels::CellKind cell);
// The products with W and R.
Cost RecurrentCost(const CostContext& c);
Result<std::unique_ptr<Kernel>> BindRecurrent(BindContext& c, kernels::CellKind cell);

}  // namespace parallax::ops
