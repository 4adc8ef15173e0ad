// Streams put together: what the same server answers where it does not stream.
#include "server/openai/aggregate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace parallax::server::openai {
namespace {

using nlohmann::json;

json Put(Endpoint endpoint, const std::vector<std::string>& chunks) {
  Aggregate aggregate(endpoint);
  for (const std::string& chunk : chunks) aggregate.Add(json::parse(chunk));
  return json::parse(aggregate.Finish());
}

// The chunks of llama-server for a chat of two tokens, and its answer without a stream, but for
// fields that differ by time.
TEST(Aggregate, AChatOfLlamaServer) {
  const json whole = Put(
      Endpoint::kChat,
      {R"({"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],)"
       R"("created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1",)"
       R"("object":"chat.completion.chunk"})",
       R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hello"}}],)"
       R"("created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1",)"
       R"("object":"chat.completion.chunk"})",
       R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":" world"}}],)"
       R"("created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1",)"
       R"("object":"chat.completion.chunk"})",
       R"({"choices":[{"finish_reason":"length","index":0,"delta":{}}],"created":1,)"
       R"("id":"chatcmpl-1","model":"m","system_fingerprint":"b1",)"
       R"("object":"chat.completion.chunk"})",
       R"({"choices":[],"created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1",)"
       R"("object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":30,)"
       R"("total_tokens":32,"prompt_tokens_details":{"cached_tokens":0}},)"
       R"("timings":{"cache_n":0,"prompt_n":30}})"});
  EXPECT_EQ(whole, json::parse(R"({"choices":[{"finish_reason":"length","index":0,)"
                               R"("message":{"role":"assistant","content":"Hello world"}}],)"
                               R"("created":1,"model":"m","system_fingerprint":"b1",)"
                               R"("object":"chat.completion","usage":{"completion_tokens":2,)"
                               R"("prompt_tokens":30,"total_tokens":32,)"
                               R"("prompt_tokens_details":{"cached_tokens":0}},"id":"chatcmpl-1",)"
                               R"("timings":{"cache_n":0,"prompt_n":30}})"));
}

TEST(Aggregate, ToolCallsInPieces) {
  const json whole = Put(
      Endpoint::kChat,
      {R"({"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":)"
       R"([{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]})",
       R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":)"
       R"({"arguments":"{\"x\":"}}]}}]})",
       R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function",)"
       R"("function":{"name":"g","arguments":"{}"}}]}}]})",
       R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"type":"function","function":)"
       R"({"arguments":"1}"}}]}}]})",
       R"({"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]})"});
  const json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  EXPECT_EQ(choice["message"]["tool_calls"],
            json::parse(R"([{"id":"a","type":"function","function":{"name":"f","arguments":)"
                        R"("{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g",)"
                        R"("arguments":"{}"}}])"));
}

// Calls without an index, as some servers send them, are whole ones.
TEST(Aggregate, WholeToolCalls) {
  const json whole =
      Put(Endpoint::kChat, {R"({"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a"}]}}]})",
                            R"({"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b"}]}}]})"});
  EXPECT_EQ(whole["choices"][0]["message"]["tool_calls"],
            json::parse(R"([{"id":"a"},{"id":"b"}])"));
}

TEST(Aggregate, LogprobsAppend) {
  const json whole = Put(
      Endpoint::kChat,
      {R"({"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}]})",
       R"({"choices":[{"index":0,"delta":{"content":"b"},"logprobs":{"content":[{"token":"b"}]}}]})",
       R"({"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})"});
  EXPECT_EQ(whole["choices"][0]["logprobs"]["content"],
            json::parse(R"([{"token":"a"},{"token":"b"}])"));
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "ab");
}

TEST(Aggregate, SeveralChoices) {
  const json whole = Put(
      Endpoint::kCompletion,
      {R"({"choices":[{"index":1,"text":"b"}]})", R"({"choices":[{"index":0,"text":"a"}]})",
       R"({"choices":[{"index":1,"text":"b","finish_reason":"stop"},{"index":0,"text":"a"}]})"});
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["choices"], json::parse(R"([{"index":0,"text":"aa","finish_reason":null},)"
                                          R"({"index":1,"text":"bb","finish_reason":"stop"}])"));
}

TEST(Aggregate, UnknownFieldsAreKept) {
  const json whole =
      Put(Endpoint::kChat,
          {R"({"x":1,"y":[1],"choices":[{"index":0,"z":"p","delta":{"reasoning_content":"a"}}]})",
           R"({"x":2,"y":null,"choices":[{"index":0,"z":"q","delta":{"reasoning_content":"b",)"
           R"("audio":{"id":"i","data":"c"}}}]})",
           R"({"choices":[{"index":0,"delta":{"audio":{"id":"i","data":"d"}}}]})"});
  EXPECT_EQ(whole["x"], 2);
  EXPECT_EQ(whole["y"], json::parse("[1]"));
  EXPECT_EQ(whole["choices"][0]["z"], "pq");
  EXPECT_EQ(whole["choices"][0]["message"]["reasoning_content"], "ab");
  EXPECT_EQ(whole["choices"][0]["message"]["audio"], json::parse(R"({"id":"i","data":"cd"})"));
}

// Nonsense is left out, huge indices do not fill memory.
TEST(Aggregate, Nonsense) {
  const json whole =
      Put(Endpoint::kChat,
          {R"({"choices":[5,null,{"index":-1,"delta":{"content":"x"}}]})",
           R"({"choices":[{"index":99999999999,"delta":{"content":"x"}}]})",
           R"({"choices":[{"index":0,"delta":"x"}]})", R"({"choices":7})",
           R"({"choices":[{"delta":{"content":"ok","tool_calls":[7,{"index":"q"}]}}]})"});
  ASSERT_EQ(whole["choices"].size(), 1U);
  EXPECT_EQ(whole["choices"][0]["index"], 0);
  EXPECT_EQ(whole["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(Put(Endpoint::kChat, {}), json::parse(R"({"object":"chat.completion","choices":[]})"));
}

}  // namespace
}  // namespace parallax::server::openai
