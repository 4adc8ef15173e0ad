// Names of an enumeration whose values count from 0, in order, for reading files.
//
// Role:       JsonObject::OneOf wants a list of names; each enumeration has one Name().
// Ownership:  names are string literals.
// Threads:    pure.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace parallax::router {

template <class Enum, size_t kCount>
std::array<std::string_view, kCount> NamesOf() {
  std::array<std::string_view, kCount> names;
  for (size_t i = 0; i < kCount; ++i) names[i] = Name(static_cast<Enum>(i));
  return names;
}

}  // namespace parallax::router
