// The equation of Einsum: which label each axis has.
//
// Role:       parsed for inference, cost and binding.
// Threads:    pure.
// Source:     ONNX operator specification, Einsum-12.
// Example:
//   PX_ASSIGN_OR_RETURN(Equation e, ParseEquation("...ij,jk", 2));
//   // terms {{kEllipsis, 'i', 'j'}, {'j', 'k'}}, output {kEllipsis, 'i', 'k'}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace parallax::ops {

// A label is a letter, or an axis of an ellipsis: kEllipsis is all of them, kEllipsis + 1 the last
// one, kEllipsis + 2 the one before it and so on, so that ellipses of several operands align at the
// right and broadcast as in NumPy.
using EinsumLabels = std::vector<int>;
inline constexpr int kEllipsis = 256;

struct Equation {
  std::vector<EinsumLabels> terms;
  EinsumLabels output;  // without "->": the ellipsis, then the letters that appear once, sorted
};

// Checks everything that does not depend on ranks.
Result<Equation> ParseEquation(std::string_view text, int operands);

bool HasEllipsis(const EinsumLabels& labels);
// `labels` with the ellipsis written out as `axes` labels.
EinsumLabels Expand(const EinsumLabels& labels, int axes);
// How many axes the ellipsis of `labels` stands for in an operand of `rank`; an error when the
// letters do not fit. `operand` is for the message.
Result<int> EllipsisAxes(const EinsumLabels& labels, int rank, int operand);

}  // namespace parallax::ops
