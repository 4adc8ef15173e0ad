// A generation request as the router needs to know it, over the bytes the client sent.
//
// Role:       the first step of a request; the dispatcher decides from it, backends are sent its
//             text with at most `stream`, `stream_options` and `echo` changed.
// Ownership:  owns the client's text and its parsed form.
// Threads:    a value.
// Invariants: fields the router does not know pass through byte for byte. Types of the fields it
//             does know are checked; their meaning is the backend's to judge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace parallax::server::openai {

enum class Endpoint : unsigned char { kChat, kCompletion };
std::string_view PathOf(Endpoint endpoint);  // "/v1/chat/completions"
std::string_view Name(Endpoint endpoint);    // "chat", "completion"

constexpr std::size_t kMaxDepth = 128;
// Values and members of a body, a prompt's token ids among them: parsed, each takes some 40 bytes.
constexpr std::size_t kMaxValues = std::size_t{1} << 18;

struct GenerationRequest {
  Endpoint endpoint = Endpoint::kChat;
  std::string text;     // the body as it came
  nlohmann::json body;  // parsed
  std::string model;    // "" where the client named none
  bool stream = false;
  bool include_usage = false;
  // max_completion_tokens, max_tokens or llama-server's n_predict, the first that is there; a
  // negative n_predict (no limit) counts as not given.
  std::optional<std::int64_t> max_tokens;
  std::int64_t choices = 1;  // n
  bool cache_prompt = true;
  bool ignore_eos = false;
  bool continues = false;  // its last message is the assistant's: the answer may continue it
  bool has_media = false;  // a message part that is not text: tokens cannot be counted
  std::optional<std::int64_t> slot;     // id_slot
  std::optional<std::int64_t> context;  // options.num_ctx: the context the client wants
  std::optional<double> timeout_ms;     // timeout (seconds): the client's deadline
};

// Errors say which field, what was wanted and what was found. Without an endpoint the body tells:
// one with a prompt and no messages is a completion's.
Result<GenerationRequest> ParseRequest(std::optional<Endpoint> endpoint, std::string text);

// What a backend is asked beside what the client asks.
struct UpstreamChanges {
  bool usage = false;                     // to report usage
  bool echo = false;                      // to repeat the message that the answer continues
  std::optional<std::string> model = {};  // under another name
};
// The text to send to a backend: the client's, streaming, and so changed.
std::string UpstreamText(const GenerationRequest& request, const UpstreamChanges& changes);

// The text whose tokens are the prompt, as far as it can be told without a chat template: the
// prompt of a completion, or tools and messages one after another. One turn's text begins with the
// whole text of the turn before it, so it also serves as the key of a prefix.
std::string PromptText(const GenerationRequest& request);

}  // namespace parallax::server::openai
