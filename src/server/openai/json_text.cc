#include "server/openai/json_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace parallax::server::openai {
namespace {

// The position after the string whose opening quote is at `at`.
std::size_t SkipString(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::size_t SkipSpace(std::string_view text, std::size_t at) {
  while (at < text.size() && IsSpace(text[at])) ++at;
  return at;
}

// The position after the value that begins at `at`: at the ',' or the bracket that ends it.
std::size_t SkipValue(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      if (depth == 0) return at;
      --depth;
    }
    if (c == ',' && depth == 0) return at;
    ++at;
  }
  return at;
}

bool Is(const Member& member, std::string_view key) {
  if (member.key.find('\\') == std::string_view::npos) return member.key == key;
  const auto decoded = nlohmann::json::parse(fmt::format("\"{}\"", member.key), nullptr,
                                             /*allow_exceptions=*/false);
  return decoded.is_string() && decoded.get_ref<const std::string&>() == key;
}

}  // namespace

Extent Measure(std::string_view text) {
  Extent extent;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = SkipString(text, i);
      continue;
    }
    if (c == '{' || c == '[') extent.depth = std::max(extent.depth, ++depth);
    if ((c == '}' || c == ']') && depth > 0) --depth;
    if (c == ',' || c == '{' || c == '[') ++extent.values;
    ++i;
  }
  return extent;
}

std::vector<Member> Members(std::string_view object) {
  std::vector<Member> members;
  std::size_t at = SkipSpace(object, 0) + 1;  // after '{'
  for (;;) {
    at = SkipSpace(object, at);
    if (at >= object.size() || object[at] != '"') return members;
    const std::size_t key_end = SkipString(object, at);
    const std::string_view key = object.substr(at + 1, key_end - at - 2);
    at = SkipSpace(object, SkipSpace(object, key_end) + 1);  // after ':'
    const std::size_t end = SkipValue(object, at);
    std::size_t last = end;
    while (last > at && IsSpace(object[last - 1])) --last;
    members.push_back({key, object.substr(at, last - at)});
    if (end >= object.size() || object[end] != ',') return members;
    at = end + 1;
  }
}

std::string WithMember(std::string_view object, std::string_view key, std::string_view value) {
  const std::vector<Member> members = Members(object);
  const auto found =
      std::find_if(members.rbegin(), members.rend(), [&](const Member& m) { return Is(m, key); });
  if (found != members.rend()) {
    const std::size_t begin = static_cast<std::size_t>(found->value.data() - object.data());
    return fmt::format("{}{}{}", object.substr(0, begin), value,
                       object.substr(begin + found->value.size()));
  }
  const std::size_t open = object.find('{') + 1;
  return fmt::format("{}\"{}\":{}{}{}", object.substr(0, open), key, value,
                     members.empty() ? "" : ",", object.substr(open));
}

}  // namespace parallax::server::openai
