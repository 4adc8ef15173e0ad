// What events of real servers' streams tell.
#include "server/openai/chunk.h"

#include <gtest/gtest.h>

#include <string>

namespace parallax::server::openai {
namespace {

ChunkFacts Chat(std::string_view data) { return ReadChunk(Endpoint::kChat, data, nullptr); }

TEST(ReadChunk, Text) {
  const ChunkFacts f =
      Chat(R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":"中 a"}}]})");
  EXPECT_TRUE(f.is_json);
  EXPECT_TRUE(f.has_delta);
  EXPECT_EQ(f.text, "中 a");
  EXPECT_EQ(f.finish_reason, "");
  EXPECT_FALSE(f.usage_only);
  EXPECT_EQ(f.report.prompt_tokens, -1);
}

// llama-server's first chunk says nothing yet.
TEST(ReadChunk, ARoleIsNoAnswer) {
  EXPECT_FALSE(
      Chat(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]})").has_delta);
  EXPECT_FALSE(
      Chat(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})").has_delta);
  EXPECT_FALSE(Chat(R"({"choices":[{"index":0,"delta":{}}]})").has_delta);
  EXPECT_FALSE(Chat(R"({"choices":[]})").has_delta);
}

TEST(ReadChunk, OtherDeltasCount) {
  EXPECT_TRUE(
      Chat(R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]})")
          .has_delta);
  EXPECT_TRUE(Chat(R"({"choices":[{"delta":{"reasoning_content":"hm"}}]})").has_delta);
  EXPECT_FALSE(Chat(R"({"choices":[{"delta":{"tool_calls":[]}}]})").has_delta);
}

// The text is choice 0's; any choice is an answer.
TEST(ReadChunk, SeveralChoices) {
  const ChunkFacts f = Chat(
      R"({"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]})");
  EXPECT_TRUE(f.has_delta);
  EXPECT_EQ(f.text, "a");
  EXPECT_TRUE(Chat(R"({"choices":[{"index":1,"delta":{"content":"b"}}]})").has_delta);
  EXPECT_EQ(Chat(R"({"choices":[{"index":1,"delta":{"content":"b"}}]})").text, "");
}

TEST(ReadChunk, Completions) {
  const ChunkFacts f =
      ReadChunk(Endpoint::kCompletion,
                R"({"choices":[{"text":"x","index":0,"finish_reason":"stop"}]})", nullptr);
  EXPECT_EQ(f.text, "x");
  EXPECT_EQ(f.finish_reason, "stop");
}

// The last chunk of llama-server: its timings say more than its usage.
TEST(ReadChunk, Timings) {
  const ChunkFacts f = Chat(
      R"({"choices":[{"finish_reason":"length","index":0,"delta":{}}],)"
      R"("usage":{"completion_tokens":8,"prompt_tokens":290,"total_tokens":298,)"
      R"("prompt_tokens_details":{"cached_tokens":285}},"timings":{"cache_n":285,"prompt_n":5,)"
      R"("prompt_ms":25.5,"predicted_n":8,"predicted_ms":66.25}})");
  EXPECT_EQ(f.finish_reason, "length");
  EXPECT_FALSE(f.has_delta);
  EXPECT_FALSE(f.usage_only);
  EXPECT_EQ(f.report.prompt_tokens, 290);
  EXPECT_EQ(f.report.cached_tokens, 285);
  EXPECT_EQ(f.report.completion_tokens, 8);
  EXPECT_EQ(f.report.prefill_ms, 25.5);
  EXPECT_EQ(f.report.decode_ms, 66.25);
}

TEST(ReadChunk, Usage) {
  const ChunkFacts f = Chat(R"({"choices":[],"usage":{"completion_tokens":2,"prompt_tokens":3,)"
                            R"("prompt_tokens_details":{"cached_tokens":1}}})");
  EXPECT_TRUE(f.usage_only);
  EXPECT_EQ(f.report.prompt_tokens, 3);
  EXPECT_EQ(f.report.cached_tokens, 1);
  EXPECT_EQ(f.report.completion_tokens, 2);
  EXPECT_FALSE(Chat(R"({"choices":[],"usage":null})").usage_only);
  EXPECT_FALSE(Chat(R"({"choices":[],"prompt_filter_results":[]})").usage_only);
}

TEST(ReadChunk, ErrorsAndTheEnd) {
  EXPECT_TRUE(Chat("[DONE]").done);
  EXPECT_FALSE(Chat("[DONE]").is_json);
  const ChunkFacts f = Chat(R"({"error":{"code":500,"message":"x"}})");
  ASSERT_TRUE(f.error.has_value());
  EXPECT_EQ((*f.error)["code"], 500);
  EXPECT_FALSE(Chat(R"({"error":null,"choices":[]})").error.has_value());
}

// Whatever is not a chunk tells nothing, and harms nothing.
TEST(ReadChunk, Nonsense) {
  for (const char* data : {"", "<html>", "[1]", "\"x\"", "{", "\xFF"}) {
    EXPECT_FALSE(Chat(data).is_json) << data;
  }
  for (const char* data :
       {R"({"choices":5})", R"({"choices":[5,null,"x"]})", R"({"choices":[{"delta":[]}]})",
        R"({"choices":[{"index":"0","delta":{"content":7}}]})", R"({"usage":[],"timings":"x"})",
        R"({"usage":{"prompt_tokens":"3","completion_tokens":-1,"prompt_tokens_details":1}})",
        R"({"timings":{"cache_n":1e300,"prompt_n":-1,"prompt_ms":-5,"predicted_n":null}})",
        R"({"choices":[{"finish_reason":7,"text":{}}]})"}) {
    for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletion}) {
      const ChunkFacts f = ReadChunk(endpoint, data, nullptr);
      EXPECT_TRUE(f.is_json) << data;
      EXPECT_EQ(f.text, "") << data;
      EXPECT_EQ(f.finish_reason, "") << data;
      EXPECT_EQ(f.report.prompt_tokens, -1) << data;
      EXPECT_EQ(f.report.cached_tokens, -1) << data;
      EXPECT_EQ(f.report.completion_tokens, -1) << data;
      EXPECT_EQ(f.report.prefill_ms, -1) << data;
    }
  }
}

// What is copied and printed goes by recursion: 80,000 levels ended the server.
TEST(ReadChunk, ADeepOneIsNoChunk) {
  for (const std::string field : {"error", "choices", "other"}) {
    const std::string deep =
        "{\"" + field + "\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
    nlohmann::json chunk;
    const ChunkFacts facts = ReadChunk(Endpoint::kChat, deep, &chunk);
    EXPECT_FALSE(facts.is_json);
    EXPECT_FALSE(facts.error);
    EXPECT_TRUE(chunk.is_null());
  }
}

}  // namespace
}  // namespace parallax::server::openai
