#include "ir/types.h"

#include <fmt/format.h>

namespace parallax {

bool TensorType::is_static() const {
  if (!ranked || dims.size() > kMaxRank) return false;
  for (const Dim& d : dims) {
    if (!d.known()) return false;
  }
  return true;
}

std::optional<Shape> TensorType::shape() const {
  if (!is_static()) return std::nullopt;
  Shape s;
  for (const Dim& d : dims) s.Append(d.extent);
  return s;
}

TensorType TensorType::Of(DType dtype, const Shape& shape) {
  TensorType t{dtype, true, {}};
  t.dims.reserve(static_cast<size_t>(shape.rank()));
  for (int64_t d : shape.dims()) t.dims.emplace_back(d);
  return t;
}

SymbolId SymbolTable::Intern(std::string_view name) {
  const auto [it, inserted] = ids_.emplace(name, size() + 1);
  if (inserted) names_.emplace_back(name);
  return it->second;
}

std::string_view SymbolTable::NameOf(SymbolId id) const {
  if (id <= 0 || id > size()) return "?";
  return names_[static_cast<size_t>(id - 1)];
}

std::string ToString(const TensorType& type, const SymbolTable& symbols) {
  std::string s(Name(type.dtype));
  if (!type.ranked) return s + "[...]";
  s += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) s += ',';
    const Dim& d = type.dims[i];
    if (d.known()) {
      s += fmt::format("{}", d.extent);
    } else {
      s += symbols.NameOf(d.symbol);
    }
  }
  return s + ']';
}

}  // namespace parallax
