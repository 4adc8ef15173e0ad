#include "ops/core/attention_layout.h"

#include <algorithm>

#include "ops/core/dims.h"
#include "ops/core/node_context.h"

namespace parallax::ops {

Result<void> AttentionLayout::Check(const Dims& dims) const {
  const auto count = [&](char c) { return std::count(letters.begin(), letters.end(), c); };
  if (letters.find_first_not_of("bhsdp") != std::string::npos || count('s') != 1 ||
      count('d') != 1 || count('h') > 1 || count('p') > 1) {
    return Invalid("'{}' is no layout of an operand of attention", letters);
  }
  if (letters.size() != dims.size()) {
    return Invalid("layout '{}' for a shape of {} axes", letters, dims.size());
  }
  const int parts = Axis('p');
  if (part < 0 || (parts < 0 ? part > 0
                             : dims[static_cast<size_t>(parts)].known() &&
                                   part >= dims[static_cast<size_t>(parts)].extent)) {
    return Invalid("part {} of {} with layout '{}'", part, DimsToString(dims), letters);
  }
  return {};
}

int AttentionLayout::Axis(char letter) const {
  const size_t at = letters.find(letter);
  return at == std::string::npos ? -1 : static_cast<int>(at);
}

std::vector<int> AttentionLayout::BatchAxes() const {
  std::vector<int> axes;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] == 'b') axes.push_back(static_cast<int>(i));
  }
  if (Axis('h') >= 0) axes.push_back(Axis('h'));
  return axes;
}

Dims AttentionLayout::Batch(const Dims& dims) const {
  Dims batch;
  for (int axis : BatchAxes()) batch.push_back(dims[static_cast<size_t>(axis)]);
  return batch;
}

}  // namespace parallax::ops
