// Puts the chunks of a stream together into the answer a client that does not stream expects.
//
// Role:       backends are always asked to stream, so that a client's leaving stops them; this
//             gives the other clients what they asked for.
// Threads:    a value.
// Invariants: fields nobody here knows are kept: of a choice or delta strings are joined, lists
//             appended, objects merged, other values replaced; of the chunk itself the last value
//             stays. Choices and tool calls are joined by their `index`.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "server/openai/request.h"

namespace parallax::server::openai {

class Aggregate {
 public:
  explicit Aggregate(Endpoint endpoint) : endpoint_(endpoint) {}
  // `chunk` is an object; what in it is not of a chunk's form is left out.
  void Add(const nlohmann::json& chunk);
  // The whole answer as JSON text: `chat.completion` or `text_completion`.
  std::string Finish() const;

 private:
  Endpoint endpoint_;
  nlohmann::ordered_json top_;
  std::map<long long, nlohmann::ordered_json> choices_;  // by index
};

}  // namespace parallax::server::openai
