// What a real llama-server streamed, put together: the answer it gives where it does not stream.
// recorded.json is written by record.py.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/http/sse.h"
#include "server/openai/aggregate.h"
#include "server/openai/chunk.h"

namespace parallax::server::openai {
namespace {

using nlohmann::json;

json Recorded() {
  std::ifstream file(PARALLAX_RECORDED);
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

Endpoint EndpointOf(const json& exchange) {
  return exchange["path"] == PathOf(Endpoint::kChat) ? Endpoint::kChat : Endpoint::kCompletion;
}

std::vector<std::string> Events(const std::string& stream) {
  std::vector<std::string> events;
  http::SseSplitter splitter;
  EXPECT_TRUE(
      splitter.Feed(stream, [&](const http::SseEvent& event) { events.emplace_back(event.data); }));
  EXPECT_EQ(splitter.Rest(), "");
  return events;
}

// Two generations differ in their ids and clocks, and in nothing else.
json Comparable(json answer) {
  for (const char* key : {"id", "created"}) {
    EXPECT_TRUE(answer.contains(key)) << key;
    answer.erase(key);
  }
  for (auto& [key, value] : answer["timings"].items()) {
    if (key.find("_ms") != std::string::npos || key.find("per_") != std::string::npos) value = 0;
  }
  return answer;
}

TEST(Recorded, StreamsPutTogetherAreTheWholeAnswers) {
  const json recorded = Recorded();
  ASSERT_GE(recorded.size(), 7U);
  for (const json& exchange : recorded) {
    SCOPED_TRACE(exchange["name"].get<std::string>());
    Aggregate aggregate(EndpointOf(exchange));
    for (const std::string& event : Events(exchange["stream"])) {
      if (event != "[DONE]") aggregate.Add(json::parse(event));
    }
    EXPECT_EQ(Comparable(json::parse(aggregate.Finish())), Comparable(exchange["whole"]));
  }
}

TEST(Recorded, ReportsAndEndsAreRead) {
  for (const json& exchange : Recorded()) {
    SCOPED_TRACE(exchange["name"].get<std::string>());
    Report report;
    std::string finish, text;
    bool done = false;
    for (const std::string& event : Events(exchange["stream"])) {
      EXPECT_FALSE(done) << "nothing follows the end";
      json chunk;
      const ChunkFacts facts = ReadChunk(EndpointOf(exchange), event, &chunk);
      EXPECT_FALSE(facts.error);
      done |= facts.done;
      text += facts.text;
      if (!facts.finish_reason.empty()) finish = facts.finish_reason;
      if (facts.report.prompt_tokens >= 0) report = facts.report;
    }
    EXPECT_TRUE(done);
    const json& whole = exchange["whole"];
    const json& choice = whole["choices"][0];
    EXPECT_EQ(finish, choice["finish_reason"]);
    EXPECT_EQ(text, choice.contains("text") ? choice["text"] : choice["message"]["content"]);
    EXPECT_EQ(report.prompt_tokens, whole["usage"]["prompt_tokens"]);
    EXPECT_EQ(report.completion_tokens, whole["usage"]["completion_tokens"]);
    EXPECT_EQ(report.cached_tokens, whole["usage"]["prompt_tokens_details"]["cached_tokens"]);
    EXPECT_GT(report.prefill_ms, 0);
    EXPECT_GT(report.decode_ms, 0);
  }
}

}  // namespace
}  // namespace parallax::server::openai
