// What one event of a backend's stream tells the router.
//
// Role:       read for every event, whoever the client is: usage, timings, text and the end.
// Threads:    pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "server/openai/request.h"

namespace parallax::server::openai {

// Counts and times a backend reports; -1 where it does not. llama-server's `timings` say more than
// `usage`: prompt_n is what was processed, cache_n what was reused; times are its own clock's.
struct Report {
  std::int64_t prompt_tokens = -1;  // the whole prompt, reused tokens included
  std::int64_t cached_tokens = -1;
  std::int64_t completion_tokens = -1;
  double prefill_ms = -1;
  double decode_ms = -1;
};

struct ChunkFacts {
  bool done = false;        // "[DONE]"
  bool is_json = false;     // an object; everything below is only set then
  bool has_delta = false;   // text, a tool call or anything else of an answer
  bool usage_only = false;  // `choices` is empty and `usage` is there: the chunk include_usage adds
  std::string text;         // answer text of choice 0 in this event
  std::string finish_reason;
  std::optional<nlohmann::json> error;
  Report report;
};

// `data` is the data of one event; `parsed` receives its JSON where it is an object.
ChunkFacts ReadChunk(Endpoint endpoint, std::string_view data, nlohmann::json* parsed);

}  // namespace parallax::server::openai
