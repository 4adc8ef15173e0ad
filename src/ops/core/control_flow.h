// Shared parts of the operators that run bodies.
#pragma once

#include <vector>

#include "ops/core/infer_context.h"

namespace parallax::ops {

// The most precise type both values fit: equal dims stay, others become unknown, unequal ranks
// leave the rank open. Unequal element types are an error naming `what`.
Result<TensorType> CommonType(const TensorType& a, const TensorType& b, std::string_view what);

}  // namespace parallax::ops
