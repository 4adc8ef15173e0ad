// Arithmetic on symbolic dimensions: what can be said about a result's extent.
//
// Role:       helpers of infer functions.
// Threads:    pure.
// Invariants: an unknown operand gives an unknown result unless a rule fixes it; overflow of a
//             known result gives an error that names both operands.
#pragma once

#include <span>

#include "base/result.h"
#include "ir/types.h"

namespace parallax::ops {

Result<Dim> AddDims(const Dim& a, const Dim& b);
Result<Dim> MulDims(const Dim& a, const Dim& b);
// Numpy broadcasting of two extents: 1 stretches; a symbol against 1 stays that symbol; against a
// known k > 1 it must be k (or 1) when it becomes known, so the result is k.
Result<Dim> BroadcastDim(const Dim& a, const Dim& b);
// The common shape of several operands, right-aligned; the error shows both shapes.
Result<Dims> BroadcastDimsOf(const Dims& a, const Dims& b);
// Two extents that must be the same: the more precise one, or an error naming `what`.
Result<Dim> MergeDim(const Dim& a, const Dim& b, std::string_view what);
// Product of dims[begin, end).
Result<Dim> ProductOf(const Dims& dims, size_t begin, size_t end);
// "[2,?,4]" without symbol names, for messages.
std::string DimsToString(const Dims& dims);

}  // namespace parallax::ops
