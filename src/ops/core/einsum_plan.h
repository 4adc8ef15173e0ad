// EinsumPlan: an Einsum with known extents as copies, sums, products and matrix products.
//
// Role:       made when the operator is bound; also gives its cost.
// Ownership:  owns its steps.
// Threads:    pure.
// Invariants: labels that nothing else needs are summed out of an operand first. Operands are
//             contracted in pairs, the cheapest pair next. A pair without a common summed label is
//             an elementwise product, any other a batched matrix product that reads its operands
//             and writes the result where they lie when their strides allow it, through transposed
//             copies otherwise, of as few elements as possible.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/shape.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/gemm/gemm.h"
#include "kernels/move/strided_copy.h"
#include "kernels/reduce/reduce.h"
#include "ops/core/einsum_equation.h"

namespace parallax::ops {

// Where a tensor of the plan lies.
struct EinsumPlace {
  enum class Kind : uint8_t { kOperand, kTemporary, kResult };
  Kind kind = Kind::kResult;
  int64_t at = 0;  // the operand's number, or elements into the temporaries
};

struct EinsumStep {
  EinsumPlace a, b, out;  // b: of products only
  // Copy, sum, elementwise product, or matrix product (neither operand packed).
  std::variant<kernels::CopyPlan, kernels::ReducePlan, kernels::BroadcastPlan, kernels::GemmShape>
      work;
};

struct EinsumPlan {
  std::vector<EinsumStep> steps;
  int64_t temporary_elements = 0;
  double flops = 0;
};

// `terms` and `output` without kEllipsis; shapes agree with them, where an extent of 1 broadcasts.
Result<EinsumPlan> PlanEinsum(const std::vector<EinsumLabels>& terms, std::span<const Shape> shapes,
                              const EinsumLabels& output);

}  // namespace parallax::ops
