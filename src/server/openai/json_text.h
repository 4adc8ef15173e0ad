// Looks at JSON as text: where the members of the outermost object stand, how deep it nests.
//
// Role:       the router changes one or two members of a request and must leave every other byte as
//             the client wrote it: a parser that prints again would change numbers and order.
// Threads:    pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace parallax::server::openai {

struct Member {
  std::string_view key;    // as written, without its quotes; escapes are not decoded
  std::string_view value;  // as written, without the space around it
};

// How deep `text` nests (1 for {} or []), and how many values it has: at least so many, at most one
// more for each bracket. Counts brackets and commas outside strings; for text that is not JSON the
// numbers mean nothing, but they are found in one pass and never by recursion.
struct Extent {
  std::size_t depth = 0;
  std::size_t values = 1;
};
Extent Measure(std::string_view text);

// The members of the outermost object, in order. `object` must be valid JSON and an object.
std::vector<Member> Members(std::string_view object);

// `object` with member `key` set to `value` (JSON text): the last member of that name, however it
// is escaped, is replaced, or one is put in front. `object` must be valid JSON and an object; `key`
// needs no escapes.
std::string WithMember(std::string_view object, std::string_view key, std::string_view value);

}  // namespace parallax::server::openai
