// Matrix products as operators: what MatMul, Gemm and FusedMatMul share.
//
// Role:       shapes as kernels take them, the cost, and binding in f32 with a constant right side
//             packed once for the session.
// Threads:    used by one thread.
#pragma once

#include <memory>

#include "kernels/gemm/gemm.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Whether attributes transA and transB swap the last two axes of an operand.
struct Transposes {
  kernels::Transpose a = kernels::Transpose::kNo, b = kernels::Transpose::kNo;
};
Transposes TransposesOf(const NodeContext& c);

// Output 0 is NumPy's matmul of inputs 0 and 1; a vector counts as one row (left) or one column
// (right) and is never transposed.
Result<void> InferMatMul(InferContext& c);
Cost MatMulCost(const CostContext& c);

// The product as one batched GEMM. Where the right side is one matrix and the left one is not
// transposed, the left side's batches are simply more rows.
kernels::GemmShape MatMulShape(const Shape& a, const Shape& b, Transposes transposes);

// Which inputs the epilogue adds, -1 for none: a bias along `GemmEpilogue::bias_axis`, a residual
// of the output's shape.
struct GemmAddends {
  int bias = -1, residual = -1;
};
// f32 inputs 0 and 1 to output 0. `epilogue` is without pointers.
Result<std::unique_ptr<Kernel>> BindGemm(BindContext& c, kernels::GemmShape shape,
                                         const kernels::GemmEpilogue& epilogue,
                                         GemmAddends addends);

}  // namespace parallax::ops
