// Axes that are an attribute in old opsets and an input in new ones.
#pragma once

#include <optional>
#include <vector>

#include "ops/core/infer_context.h"

namespace parallax::ops {

// The axes of input `input` if given, else of the attribute `axes`; empty when there are neither,
// nothing when the input's values are not known yet.
std::optional<std::vector<int64_t>> AxesOf(const InferContext& c, int input);
// How many axes the input has, even when their values are not known; -1 when that is not known.
int64_t CountOfInput(const InferContext& c, int input);

}  // namespace parallax::ops
