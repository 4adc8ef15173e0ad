#include "server/openai/chunk.h"

#include "server/openai/json_text.h"

namespace parallax::server::openai {
namespace {

using nlohmann::json;

const json* Object(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_object() ? &*found : nullptr;
}

std::int64_t Count(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number()) return -1;
  const double value = found->get<double>();
  return value >= 0 && value < 1e15 ? static_cast<std::int64_t>(value) : -1;
}

double Milliseconds(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number()) return -1;
  const double value = found->get<double>();
  return value >= 0 && value < 1e12 ? value : -1;
}

void ReadReport(const json& chunk, Report& report) {
  if (const json* usage = Object(chunk, "usage")) {
    report.prompt_tokens = Count(*usage, "prompt_tokens");
    report.completion_tokens = Count(*usage, "completion_tokens");
    if (const json* details = Object(*usage, "prompt_tokens_details")) {
      report.cached_tokens = Count(*details, "cached_tokens");
    }
  }
  if (const json* timings = Object(chunk, "timings")) {
    const std::int64_t reused = Count(*timings, "cache_n");
    const std::int64_t processed = Count(*timings, "prompt_n");
    if (reused >= 0) report.cached_tokens = reused;
    if (reused >= 0 && processed >= 0) report.prompt_tokens = reused + processed;
    if (const std::int64_t n = Count(*timings, "predicted_n"); n >= 0) report.completion_tokens = n;
    report.prefill_ms = Milliseconds(*timings, "prompt_ms");
    report.decode_ms = Milliseconds(*timings, "predicted_ms");
  }
}

bool IsEmpty(const json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_array() && value.empty());
}

void ReadChoice(Endpoint endpoint, const json& choice, ChunkFacts& facts) {
  const auto index = choice.find("index");
  const bool first = index == choice.end() || (index->is_number() && *index == 0);
  if (const auto reason = choice.find("finish_reason");
      reason != choice.end() && reason->is_string()) {
    facts.finish_reason = reason->get<std::string>();
  }
  if (endpoint == Endpoint::kCompletion) {
    const auto text = choice.find("text");
    if (text == choice.end() || !text->is_string()) return;
    facts.has_delta |= !IsEmpty(*text);
    if (first) facts.text += text->get_ref<const std::string&>();
    return;
  }
  const json* delta = Object(choice, "delta");
  if (delta == nullptr) return;
  for (const auto& [key, value] : delta->items()) {
    if (key != "role" && !IsEmpty(value)) facts.has_delta = true;
  }
  if (const auto content = delta->find("content");
      first && content != delta->end() && content->is_string()) {
    facts.text += content->get_ref<const std::string&>();
  }
}

}  // namespace

ChunkFacts ReadChunk(Endpoint endpoint, std::string_view data, json* parsed) {
  ChunkFacts facts;
  if (data == "[DONE]") {
    facts.done = true;
    return facts;
  }
  // What is copied and printed again goes by recursion: a backend may not choose how deep.
  if (Measure(data).depth > kMaxDepth) return facts;
  json chunk = json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!chunk.is_object()) return facts;
  facts.is_json = true;
  if (const auto error = chunk.find("error"); error != chunk.end() && !error->is_null()) {
    facts.error = *error;
  }
  ReadReport(chunk, facts.report);
  const auto choices = chunk.find("choices");
  if (choices != chunk.end() && choices->is_array()) {
    facts.usage_only = choices->empty() && Object(chunk, "usage") != nullptr;
    for (const json& choice : *choices) {
      if (choice.is_object()) ReadChoice(endpoint, choice, facts);
    }
  }
  if (parsed != nullptr) *parsed = std::move(chunk);
  return facts;
}

}  // namespace parallax::server::openai
