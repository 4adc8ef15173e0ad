#include "ops/core/einsum_equation.h"

#include <algorithm>
#include <cctype>

#include "ops/core/node_context.h"

namespace parallax::ops {
namespace {

Result<EinsumLabels> ParseTerm(std::string_view term, std::string_view equation) {
  EinsumLabels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "..." && !HasEllipsis(labels)) {
      labels.push_back(kEllipsis);
      i += 2;
    } else {
      return Invalid("equation '{}': cannot read '{}'", equation, term.substr(i));
    }
  }
  return labels;
}

int64_t Occurrences(const EinsumLabels& labels, int label) {
  return std::count(labels.begin(), labels.end(), label);
}

}  // namespace

bool HasEllipsis(const EinsumLabels& labels) { return Occurrences(labels, kEllipsis) != 0; }

Result<Equation> ParseEquation(std::string_view text, int operands) {
  std::string packed;
  std::copy_if(text.begin(), text.end(), std::back_inserter(packed),
               [](char c) { return c != ' '; });
  const size_t arrow = packed.find("->");
  std::string_view left = packed;
  left = left.substr(0, arrow);
  Equation e;
  for (size_t at = 0; at <= left.size();) {
    const size_t comma = std::min(left.find(',', at), left.size());
    PX_ASSIGN_OR_RETURN(EinsumLabels labels, ParseTerm(left.substr(at, comma - at), text));
    e.terms.push_back(std::move(labels));
    at = comma + 1;
  }
  if (e.terms.size() != static_cast<size_t>(operands)) {
    return Invalid("equation '{}' has {} terms for {} operands", text, e.terms.size(), operands);
  }

  EinsumLabels all;
  for (const EinsumLabels& term : e.terms) all.insert(all.end(), term.begin(), term.end());
  if (arrow == std::string::npos) {
    if (HasEllipsis(all)) e.output.push_back(kEllipsis);
    for (int letter = 0; letter < kEllipsis; ++letter) {
      if (Occurrences(all, letter) == 1) e.output.push_back(letter);
    }
    return e;
  }
  PX_ASSIGN_OR_RETURN(e.output, ParseTerm(std::string_view(packed).substr(arrow + 2), text));
  for (int label : e.output) {
    if (label == kEllipsis) continue;
    if (Occurrences(all, label) == 0) {
      return Invalid("equation '{}': no operand has the output's '{}'", text,
                     static_cast<char>(label));
    }
    if (Occurrences(e.output, label) > 1) {
      return Invalid("equation '{}': the output repeats '{}'", text, static_cast<char>(label));
    }
  }
  if (HasEllipsis(all) && !HasEllipsis(e.output)) {
    return Invalid("equation '{}': the output lacks the operands' ellipsis", text);
  }
  return e;
}

EinsumLabels Expand(const EinsumLabels& labels, int axes) {
  EinsumLabels expanded;
  for (int label : labels) {
    if (label != kEllipsis) {
      expanded.push_back(label);
    } else {
      for (int i = axes; i > 0; --i) expanded.push_back(kEllipsis + i);
    }
  }
  return expanded;
}

Result<int> EllipsisAxes(const EinsumLabels& labels, int rank, int operand) {
  const bool ellipsis = HasEllipsis(labels);
  const int letters = static_cast<int>(labels.size()) - (ellipsis ? 1 : 0);
  if (ellipsis ? rank < letters : rank != letters) {
    return Invalid("operand {} has rank {}, its term has {} letters", operand, rank, letters);
  }
  return rank - letters;
}

}  // namespace parallax::ops
