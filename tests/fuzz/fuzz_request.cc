// Bytes that come from clients and backends as JSON: refused or read, never a crash; what a backend
// is sent says what the client said.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "server/openai/aggregate.h"
#include "server/openai/chunk.h"
#include "server/openai/error.h"
#include "server/openai/json_text.h"
#include "server/openai/request.h"

using namespace parallax::server::openai;
using nlohmann::json;

namespace {

void Check(bool holds) {
  if (!holds) __builtin_trap();
}

void AsRequest(Endpoint endpoint, const std::string& text) {
  const auto request = ParseRequest(endpoint, text);
  if (!request.ok()) {
    Check(!request.error().message().empty());
    return;
  }
  (void)PromptText(*request);
  json expected = request->body;
  expected["stream"] = true;
  for (const bool usage : {false, true}) {
    const std::string sent = UpstreamText(*request, {.usage = usage});
    json again = json::parse(sent, nullptr, /*allow_exceptions=*/false);
    Check(again.is_object());
    if (usage) Check(again["stream_options"]["include_usage"] == true);
    if (usage && !request->include_usage) {
      again.erase("stream_options");
      json without = expected;
      without.erase("stream_options");
      Check(again == without);
    } else {
      Check(again == expected);
    }
  }
  const json renamed =
      json::parse(UpstreamText(*request, {.echo = true, .model = "a \"b\""}), nullptr, false);
  expected["model"] = "a \"b\"";
  expected["echo"] = true;
  Check(renamed == expected);
  // Every member stands where the parser finds it; parsers keep the last of one name.
  json members = json::object();
  for (const Member& member : Members(request->text)) {
    const json key = json::parse('"' + std::string(member.key) + '"', nullptr, false);
    const json value = json::parse(member.value, nullptr, false);
    Check(key.is_string() && !value.is_discarded());
    members[key.get<std::string>()] = value;
  }
  Check(members == request->body);
  Check(Measure(request->text).depth <= kMaxDepth);
}

void AsStream(Endpoint endpoint, std::string_view text) {
  Aggregate aggregate(endpoint);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    json chunk;
    const ChunkFacts facts = ReadChunk(endpoint, text.substr(0, end), &chunk);
    if (facts.is_json) {
      aggregate.Add(chunk);
      if (facts.error) (void)IsContextOverflow(500, facts.error->dump());
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const json whole = json::parse(aggregate.Finish(), nullptr, /*allow_exceptions=*/false);
  Check(whole.is_object() && whole["choices"].is_array());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletion}) {
    AsRequest(endpoint, text);
    AsStream(endpoint, text);
  }
  (void)IsContextOverflow(400, text);
  return 0;
}
