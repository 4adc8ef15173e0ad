// Errors in the form OpenAI's clients understand: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace parallax::server::openai {

// The `type` clients expect beside a status: "invalid_request_error", "server_error", ...
std::string_view ErrorType(int status);
// `code` is a word for programs ("model_not_found"); "" leaves it null.
http::Response ErrorResponse(int status, std::string_view message, std::string_view code = {});
// As llama-server says it: 400 with type exceed_context_size_error and both numbers.
http::Response ContextErrorResponse(std::int64_t prompt_tokens, std::int64_t context);

// True for a backend's complaint that the prompt is too long, in any of the ways they say it.
bool IsContextOverflow(int status, std::string_view body);

}  // namespace parallax::server::openai
