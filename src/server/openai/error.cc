#include "server/openai/error.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace parallax::server::openai {
namespace {

using nlohmann::ordered_json;

http::Response Json(int status, const ordered_json& value) {
  return {status, {{"Content-Type", "application/json"}}, DumpJson(value) + "\n"};
}

ordered_json Body(int status, std::string_view message, std::string_view code) {
  ordered_json error{{"message", message}, {"type", ErrorType(status)}, {"param", nullptr}};
  error["code"] = code.empty() ? ordered_json(nullptr) : ordered_json(code);
  return {{"error", error}};
}

}  // namespace

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

http::Response ErrorResponse(int status, std::string_view message, std::string_view code) {
  return Json(status, Body(status, message, code));
}

http::Response ContextErrorResponse(std::int64_t prompt_tokens, std::int64_t context) {
  ordered_json error{{"code", 400}, {"type", "exceed_context_size_error"}};
  if (prompt_tokens >= 0 && prompt_tokens < context) {  // the answer, or a neighbour, filled it
    error["message"] =
        fmt::format("the context of {} tokens was full before the answer to {} tokens had ended",
                    context, prompt_tokens);
  } else {
    error["message"] =
        prompt_tokens >= 0
            ? fmt::format("the prompt has {} tokens, the largest context here holds {}",
                          prompt_tokens, context)
            : fmt::format("the prompt and its answer do not fit the context of {} tokens", context);
  }
  if (prompt_tokens >= 0) error["n_prompt_tokens"] = prompt_tokens;
  if (context > 0) error["n_ctx"] = context;
  return Json(400, {{"error", error}});
}

bool IsContextOverflow(int status, std::string_view body) {
  if (status < 400) return false;
  std::string lower(body.substr(0, 4096));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto says = [&](std::string_view words) { return lower.find(words) != std::string::npos; };
  return says("exceed_context_size") || says("context size has been exceeded") ||
         says("context_length_exceeded") || says("maximum context length") ||
         says("exceeds the available context size");
}

}  // namespace parallax::server::openai
