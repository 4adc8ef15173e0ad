#include "server/openai/request.h"

#include <cmath>

#include "base/json_text.h"
#include "server/openai/json_text.h"

namespace parallax::server::openai {
namespace {

using nlohmann::json;

Error Wrong(std::string_view field, std::string_view wanted, const json& found) {
  std::string text = found.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return MakeError(ErrorCode::kInvalidArgument, "'{}' must be {}, found {}", field, wanted, text);
}

const json* Find(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<bool> ReadBool(const json& object, const char* key, bool otherwise) {
  const json* value = Find(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return Wrong(key, "true or false", *value);
  return value->get<bool>();
}

Result<std::optional<std::int64_t>> ReadInteger(const json& object, const char* key,
                                                std::int64_t least) {
  const json* value = Find(object, key);
  if (value == nullptr) return std::optional<std::int64_t>();
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<std::uint64_t>() > INT32_MAX) &&
                    value->get<std::int64_t>() >= least && value->get<std::int64_t>() <= INT32_MAX;
  if (!fits) {
    return Wrong(key, fmt::format("an integer from {} to {}", least, INT32_MAX), *value);
  }
  return std::optional<std::int64_t>(value->get<std::int64_t>());
}

Result<void> CheckMessages(GenerationRequest& request) {
  const json* messages = Find(request.body, "messages");
  if (messages == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument, "'messages' is missing");
  }
  if (!messages->is_array() || messages->empty()) {
    return Wrong("messages", "a list of one or more messages", *messages);
  }
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const json& message = (*messages)[i];
    const std::string place = fmt::format("messages[{}]", i);
    if (!message.is_object()) return Wrong(place, "an object", message);
    const json* role = Find(message, "role");
    if (role == nullptr || !role->is_string()) {
      return Wrong(place + ".role", "a string", role == nullptr ? json() : *role);
    }
    request.continues = *role == "assistant";
    const json* content = Find(message, "content");
    if (content == nullptr || content->is_string()) continue;
    if (!content->is_array()) return Wrong(place + ".content", "a string or a list", *content);
    for (const json& part : *content) {
      if (!part.is_object()) return Wrong(place + ".content", "a list of objects", part);
      const json* type = Find(part, "type");
      if (type == nullptr || !type->is_string()) {
        return Wrong(place + ".content[].type", "a string", type == nullptr ? json() : *type);
      }
      if (*type != "text") request.has_media = true;
    }
  }
  return {};
}

Result<void> CheckPrompt(GenerationRequest& request) {
  const json* prompt = Find(request.body, "prompt");
  if (prompt == nullptr) return MakeError(ErrorCode::kInvalidArgument, "'prompt' is missing");
  if (prompt->is_string() || prompt->is_array()) return {};
  if (prompt->is_object()) {  // llama-server: {"prompt_string": ..., "multimodal_data": [...]}
    request.has_media = true;
    return {};
  }
  return Wrong("prompt", "a string or a list", *prompt);
}

}  // namespace

std::string_view PathOf(Endpoint endpoint) {
  return endpoint == Endpoint::kChat ? "/v1/chat/completions" : "/v1/completions";
}

std::string_view Name(Endpoint endpoint) {
  return endpoint == Endpoint::kChat ? "chat" : "completion";
}

Result<GenerationRequest> ParseRequest(std::optional<Endpoint> endpoint, std::string text) {
  GenerationRequest request;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // is no JSON
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (text.empty()) return MakeError(ErrorCode::kInvalidArgument, "the body is empty");
  // The parser takes these for the end of the text, or for nothing: a backend's may not.
  if (text.starts_with(kByteOrderMark) || text.find('\0') != std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "the body is not JSON");
  }
  const Extent extent = Measure(text);
  if (extent.depth > kMaxDepth) {
    return MakeError(ErrorCode::kInvalidArgument, "the body nests deeper than {} levels",
                     kMaxDepth);
  }
  if (extent.values > kMaxValues) {
    return MakeError(ErrorCode::kInvalidArgument, "the body has more than {} values", kMaxValues);
  }
  request.body = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (request.body.is_discarded()) {
    return MakeError(ErrorCode::kInvalidArgument, "the body is not JSON");
  }
  if (!request.body.is_object()) return Wrong("body", "a JSON object", request.body);
  const json& body = request.body;
  const bool completion = body.contains("prompt") && !body.contains("messages");
  request.endpoint = endpoint.value_or(completion ? Endpoint::kCompletion : Endpoint::kChat);

  if (const json* model = Find(body, "model")) {
    if (!model->is_string()) return Wrong("model", "a string", *model);
    request.model = model->get<std::string>();
  }
  PX_ASSIGN_OR_RETURN(request.stream, ReadBool(body, "stream", false));
  PX_ASSIGN_OR_RETURN(request.cache_prompt, ReadBool(body, "cache_prompt", true));
  PX_ASSIGN_OR_RETURN(request.ignore_eos, ReadBool(body, "ignore_eos", false));
  if (const json* options = Find(body, "stream_options")) {
    if (!options->is_object()) return Wrong("stream_options", "an object", *options);
    PX_ASSIGN_OR_RETURN(request.include_usage, ReadBool(*options, "include_usage", false));
  }
  for (const char* key : {"max_completion_tokens", "max_tokens", "n_predict"}) {
    PX_ASSIGN_OR_RETURN(const std::optional<std::int64_t> limit, ReadInteger(body, key, INT32_MIN));
    if (limit && *limit >= 0) {
      request.max_tokens = limit;
      break;
    }
  }
  PX_ASSIGN_OR_RETURN(const std::optional<std::int64_t> choices, ReadInteger(body, "n", 1));
  request.choices = choices.value_or(1);
  PX_ASSIGN_OR_RETURN(request.slot, ReadInteger(body, "id_slot", -1));
  if (request.slot == -1) request.slot.reset();
  if (const json* options = Find(body, "options")) {
    if (!options->is_object()) return Wrong("options", "an object", *options);
    PX_ASSIGN_OR_RETURN(request.context, ReadInteger(*options, "num_ctx", 1));
  }
  if (const json* timeout = Find(body, "timeout")) {
    if (!timeout->is_number() || !(timeout->get<double>() > 0)) {
      return Wrong("timeout", "a number of seconds above 0", *timeout);
    }
    request.timeout_ms = timeout->get<double>() * 1000;
  }
  PX_RETURN_IF_ERROR(request.endpoint == Endpoint::kChat ? CheckMessages(request)
                                                         : CheckPrompt(request));
  request.text = std::move(text);
  return request;
}

std::string UpstreamText(const GenerationRequest& request, const UpstreamChanges& changes) {
  std::string text = request.text;
  if (changes.model) text = WithMember(text, "model", DumpJson(json(*changes.model)));
  if (changes.echo) text = WithMember(text, "echo", "true");
  if (!request.stream) text = WithMember(text, "stream", "true");
  if (changes.usage && !request.include_usage) {
    const json* options = Find(request.body, "stream_options");
    json with = options == nullptr ? json::object() : *options;
    with["include_usage"] = true;
    text = WithMember(text, "stream_options",
                      with.dump(-1, ' ', true, json::error_handler_t::replace));
  }
  return text;
}

std::string PromptText(const GenerationRequest& request) {
  std::string text;
  if (request.endpoint == Endpoint::kCompletion) {
    const json& prompt = request.body["prompt"];
    return prompt.is_string() ? prompt.get<std::string>() : DumpJson(prompt);
  }
  if (const json* tools = Find(request.body, "tools")) text += DumpJson(*tools);
  for (const json& message : request.body["messages"]) {
    const json* content = Find(message, "content");
    text += message["role"].get_ref<const std::string&>();
    text += '\n';
    if (content != nullptr) {
      text += content->is_string() ? content->get_ref<const std::string&>() : DumpJson(*content);
    }
    if (const json* calls = Find(message, "tool_calls")) text += DumpJson(*calls);
    text += '\n';
  }
  return text;
}

}  // namespace parallax::server::openai
