// Shared parts of elementwise operators: inference, cost and binding.
//
// Role:       most operator files are a schema and one call of these.
// Threads:    pure.
// Example:    src/ops/relu.cc, src/ops/add.cc.
#pragma once

#include <memory>

#include "kernels/elementwise/binary.h"
#include "kernels/elementwise/unary.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Output 0 has the shape of input 0.
Result<void> InferSameAsFirst(InferContext& c);
// Output 0 has the broadcast shape of all inputs.
Result<void> InferBroadcast(InferContext& c);

// InferBroadcast, and arithmetic on dimensions where both inputs are integer vectors or scalars
// known as such: `combine` gives one extent from two.
Result<void> InferDimArithmetic(InferContext& c, Result<Dim> (*combine)(const Dim&, const Dim&));

// `flops` for each element of output 0.
Cost ElementwiseCost(const CostContext& c, double flops, OpClass op_class = OpClass::kElementwise);

// One input, one output of equal shape.
Result<std::unique_ptr<Kernel>> BindUnary(BindContext& c, kernels::UnaryOp op,
                                          const kernels::UnaryParams& params = {});
// Two inputs that broadcast. Integer division and remainder fail at run time on a zero divisor.
Result<std::unique_ptr<Kernel>> BindBinary(BindContext& c, kernels::BinaryOp op);
// One or more inputs that broadcast, folded from the left; the result is scaled by 1/inputs when
// `mean`.
Result<std::unique_ptr<Kernel>> BindVariadic(BindContext& c, kernels::BinaryOp op,
                                             bool mean = false);

// An operator of one input and output of the same type, without attributes.
OpDef UnaryDef(std::string_view name, TypeSet types,
               Result<std::unique_ptr<Kernel>> (*bind)(BindContext&),
               Cost (*cost)(const CostContext&) = nullptr);
// An operator of two inputs of one type and an output of that type or bool (`comparison`).
OpDef BinaryDef(std::string_view name, TypeSet types,
                Result<std::unique_ptr<Kernel>> (*bind)(BindContext&), bool comparison = false);
// One or more inputs of one type.
OpDef VariadicDef(std::string_view name, TypeSet types,
                  Result<std::unique_ptr<Kernel>> (*bind)(BindContext&));

}  // namespace parallax::ops
