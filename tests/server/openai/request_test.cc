// Requests as clients write them, right and wrong.
#include "server/openai/request.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace parallax::server::openai {
namespace {

const std::string kMessages = R"("messages":[{"role":"user","content":"hi"}])";

GenerationRequest Good(const std::string& fields, Endpoint endpoint = Endpoint::kChat) {
  const std::string base = endpoint == Endpoint::kChat ? kMessages : R"("prompt":"hi")";
  auto request = ParseRequest(endpoint, "{" + base + (fields.empty() ? "" : "," + fields) + "}");
  EXPECT_TRUE(request.ok()) << fields << ": " << (request.ok() ? "" : request.error().message());
  return request.ok() ? *std::move(request) : GenerationRequest();
}

std::string Wrong(const std::string& text, Endpoint endpoint = Endpoint::kChat) {
  const auto request = ParseRequest(endpoint, text);
  EXPECT_FALSE(request.ok()) << text;
  return request.ok() ? "" : request.error().message();
}

TEST(ParseRequest, Defaults) {
  const GenerationRequest r = Good("");
  EXPECT_EQ(r.model, "");
  EXPECT_FALSE(r.stream);
  EXPECT_FALSE(r.include_usage);
  EXPECT_FALSE(r.max_tokens.has_value());
  EXPECT_EQ(r.choices, 1);
  EXPECT_TRUE(r.cache_prompt);
  EXPECT_FALSE(r.ignore_eos);
  EXPECT_FALSE(r.has_media);
  EXPECT_FALSE(r.slot.has_value());
  EXPECT_FALSE(r.timeout_ms.has_value());
}

TEST(ParseRequest, Fields) {
  const GenerationRequest r = Good(
      R"("model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"n":2,)"
      R"("cache_prompt":false,"ignore_eos":true,"id_slot":3,"options":{"num_ctx":8192},)"
      R"("timeout":1.5)");
  EXPECT_EQ(r.model, "m");
  EXPECT_TRUE(r.stream);
  EXPECT_TRUE(r.include_usage);
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.choices, 2);
  EXPECT_FALSE(r.cache_prompt);
  EXPECT_TRUE(r.ignore_eos);
  EXPECT_EQ(r.slot, 3);
  EXPECT_EQ(r.context, 8192);
  EXPECT_EQ(r.timeout_ms, 1500);
}

TEST(ParseRequest, NullCountsAsAbsent) {
  const GenerationRequest r =
      Good(R"("model":null,"stream":null,"max_tokens":null,"n":null,"stream_options":null,)"
           R"("timeout":null,"id_slot":null,"options":null)");
  EXPECT_FALSE(r.max_tokens.has_value());
  EXPECT_EQ(r.choices, 1);
}

TEST(ParseRequest, TheBudget) {
  EXPECT_EQ(Good(R"("max_tokens":5,"max_completion_tokens":6)").max_tokens, 6);
  EXPECT_EQ(Good(R"("n_predict":4)").max_tokens, 4);
  EXPECT_EQ(Good(R"("max_tokens":0)").max_tokens, 0);
  EXPECT_FALSE(Good(R"("max_tokens":-1)").max_tokens.has_value());
  EXPECT_EQ(Good(R"("max_tokens":-1,"n_predict":9)").max_tokens, 9);
  EXPECT_EQ(Good(R"("max_tokens":2147483647)").max_tokens, 2147483647);
}

TEST(ParseRequest, WrongTypesNameTheField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("model":7)", "'model' must be a string, found 7"},
      {R"("stream":"yes")", "'stream' must be true or false, found \"yes\""},
      {R"("stream":1)", "'stream'"},
      {R"("stream_options":[])", "'stream_options' must be an object"},
      {R"("stream_options":{"include_usage":1})", "'include_usage'"},
      {R"("max_tokens":"8")", "'max_tokens' must be an integer from"},
      {R"("max_tokens":8.5)", "'max_tokens'"},
      {R"("max_tokens":1e30)", "'max_tokens'"},
      {R"("max_tokens":18446744073709551615)", "'max_tokens'"},
      {R"("max_tokens":2147483648)", "'max_tokens'"},
      {R"("n":0)", "'n' must be an integer from 1"},
      {R"("id_slot":-2)", "'id_slot'"},
      {R"("options":3)", "'options' must be an object"},
      {R"("options":{"num_ctx":0})", "'num_ctx'"},
      {R"("timeout":0)", "'timeout' must be a number of seconds above 0"},
      {R"("timeout":"1")", "'timeout'"},
      {R"("cache_prompt":0)", "'cache_prompt'"},
  };
  for (const auto& [field, says] : cases) {
    EXPECT_NE(Wrong("{" + kMessages + "," + field + "}").find(says), std::string::npos)
        << field << ": " << Wrong("{" + kMessages + "," + field + "}");
  }
}

TEST(ParseRequest, Messages) {
  EXPECT_EQ(Wrong("{}"), "'messages' is missing");
  EXPECT_EQ(Wrong(R"({"messages":null})"), "'messages' is missing");
  EXPECT_NE(Wrong(R"({"messages":[]})").find("one or more messages"), std::string::npos);
  EXPECT_NE(Wrong(R"({"messages":{}})").find("one or more messages"), std::string::npos);
  EXPECT_NE(Wrong(R"({"messages":["hi"]})").find("messages[0]"), std::string::npos);
  EXPECT_NE(Wrong(R"({"messages":[{"role":"user"},{"content":"x"}]})").find("messages[1].role"),
            std::string::npos);
  EXPECT_NE(Wrong(R"({"messages":[{"role":1}]})").find("messages[0].role"), std::string::npos);
  EXPECT_NE(Wrong(R"({"messages":[{"role":"user","content":5}]})").find("messages[0].content"),
            std::string::npos);
  EXPECT_NE(Wrong(R"({"messages":[{"role":"user","content":["x"]}]})").find("list of objects"),
            std::string::npos);
  EXPECT_NE(Wrong(R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})").find("type"),
            std::string::npos);
  // An assistant's tool call has no content.
  const auto tools = ParseRequest(
      Endpoint::kChat,
      R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}]})");
  EXPECT_TRUE(tools.ok());
  const auto image = ParseRequest(
      Endpoint::kChat, R"({"messages":[{"role":"user","content":[{"type":"text","text":"x"},)"
                       R"({"type":"image_url","image_url":{"url":"data:"}}]}]})");
  ASSERT_TRUE(image.ok());
  EXPECT_TRUE(image->has_media);
}

TEST(ParseRequest, Prompts) {
  EXPECT_EQ(Wrong("{}", Endpoint::kCompletion), "'prompt' is missing");
  EXPECT_NE(Wrong(R"({"prompt":5})", Endpoint::kCompletion).find("'prompt' must be"),
            std::string::npos);
  EXPECT_TRUE(ParseRequest(Endpoint::kCompletion, R"({"prompt":[1,2,3]})").ok());
  EXPECT_TRUE(ParseRequest(Endpoint::kCompletion, R"({"prompt":""})").ok());
}

TEST(ParseRequest, NotJson) {
  for (const char* text : {"{", "nul", "{\"a\":1,}", "{'a':1}", "{\"a\":\"\xFF\"}", "{} {}",
                           "<html>", "{\"a\":1e999}", "{\"a\":\"\\ud800\"}"}) {
    EXPECT_EQ(Wrong(text), "the body is not JSON") << text;
  }
  EXPECT_NE(Wrong("[1]").find("'body' must be a JSON object"), std::string::npos);
  EXPECT_NE(Wrong("\"x\"").find("'body'"), std::string::npos);
}

TEST(ParseRequest, DepthIsBounded) {
  const auto nested = [](std::size_t depth) {
    return "{" + kMessages + ",\"x\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') +
           "}";
  };
  EXPECT_TRUE(ParseRequest(Endpoint::kChat, nested(kMaxDepth)).ok());
  EXPECT_NE(Wrong(nested(kMaxDepth + 1)).find("deeper than 128"), std::string::npos);
  EXPECT_NE(Wrong(std::string(10'000'000, '[')).find("deeper"), std::string::npos);
}

TEST(ParseRequest, AByteOrderMarkIsNoPartOfIt) {
  const auto request = ParseRequest(Endpoint::kChat, "\xEF\xBB\xBF{" + kMessages + "}");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(nlohmann::json::parse(UpstreamText(*request, {.usage = true}))["stream"], true);
}

TEST(UpstreamText, ChangesOnlyWhatItMust) {
  const std::string fields =
      R"("temperature":0.10,"seed":18446744073709551615,"x":{"stream":false},"tools":[ 1 , 2 ])";
  const std::string client = "{" + kMessages + "," + fields + "}";
  EXPECT_EQ(UpstreamText(Good(fields), {}), R"({"stream":true,)" + client.substr(1));
  EXPECT_EQ(UpstreamText(Good(fields), {.usage = true}),
            R"({"stream_options":{"include_usage":true},"stream":true,)" + client.substr(1));
  EXPECT_EQ(UpstreamText(Good(R"("stream": false)"), {}), "{" + kMessages + R"(,"stream": true})");
  // A client's own streaming request passes as it is.
  const std::string streams = R"("stream":true,"stream_options":{"include_usage":true})";
  EXPECT_EQ(UpstreamText(Good(streams), {.usage = true}), "{" + kMessages + "," + streams + "}");
  // Its other options stay.
  const auto both = nlohmann::json::parse(
      UpstreamText(Good(R"("stream":true,"stream_options":{"include_usage":false,"other":1})"),
                   {.usage = true}));
  EXPECT_EQ(both["stream_options"], (nlohmann::json{{"include_usage", true}, {"other", 1}}));
}

TEST(ParseRequest, AnAssistantsLastMessageMayBeContinued) {
  const auto continues = [](const std::string& messages) {
    const auto request = ParseRequest(Endpoint::kChat, R"({"messages":[)" + messages + "]}");
    EXPECT_TRUE(request.ok()) << messages;
    return request.ok() && request->continues;
  };
  const std::string user = R"({"role":"user","content":"hi"})";
  EXPECT_FALSE(continues(user));
  EXPECT_TRUE(continues(user + R"(,{"role":"assistant","content":"Hel"})"));
  EXPECT_TRUE(continues(user + R"(,{"role":"assistant","content":[{"type":"text","text":"H"}]})"));
  EXPECT_TRUE(continues(user + R"(,{"role":"assistant"})"));
  EXPECT_FALSE(continues(user + R"(,{"role":"assistant","content":"Hello"},)" + user));
}

TEST(UpstreamText, AsksForTheMessageThatIsContinued) {
  EXPECT_EQ(UpstreamText(Good(R"("stream":true)"), {.echo = true}),
            R"({"echo":true,)" + kMessages + R"(,"stream":true})");
  EXPECT_EQ(UpstreamText(Good(R"("stream":true,"echo":false)"), {.echo = true}),
            "{" + kMessages + R"(,"stream":true,"echo":true})");
}

TEST(UpstreamText, NamesTheModelAsTheBackendDoes) {
  EXPECT_EQ(UpstreamText(Good(R"("stream":true,"model":"auto")"), {.model = "org/q\"w"}),
            "{" + kMessages + R"(,"stream":true,"model":"org/q\"w"})");
  EXPECT_EQ(UpstreamText(Good(R"("stream":true)"), {.model = "m"}),
            R"({"model":"m",)" + kMessages + R"(,"stream":true})");
}

// What is small as text and large once parsed, and what a parser takes for the end.
TEST(ParseRequest, BodiesThatAreNotWhatTheySeem) {
  std::string many = "{" + kMessages + R"(,"x":[0)";
  for (std::size_t i = 0; i < kMaxValues; ++i) many += ",0";
  EXPECT_FALSE(ParseRequest(Endpoint::kChat, many + "]}").ok());
  std::string ids = R"({"prompt":[0)";
  for (int i = 0; i < 131'072; ++i) ids += ",1";
  EXPECT_TRUE(ParseRequest(Endpoint::kCompletion, ids + "]}").ok());
  const std::string good = "{" + kMessages + "}";
  EXPECT_TRUE(ParseRequest(Endpoint::kChat, "\xEF\xBB\xBF" + good).ok());
  EXPECT_FALSE(ParseRequest(Endpoint::kChat, "\xEF\xBB\xBF\xEF\xBB\xBF" + good).ok());
  EXPECT_FALSE(ParseRequest(Endpoint::kChat, good + std::string(1, '\0') + "x").ok());
  EXPECT_NE(ParseRequest(Endpoint::kChat, "").error().message().find("empty"), std::string::npos);
}

// One turn's text begins with the whole text of the turn before.
TEST(PromptText, GrowsAtItsEnd) {
  std::string messages = R"({"role":"system","content":"be brief"})";
  std::string before;
  for (int turn = 0; turn < 4; ++turn) {
    messages += R"(,{"role":"user","content":"question"})";
    const auto request = ParseRequest(
        Endpoint::kChat, R"({"messages":[)" + messages + R"(],"tools":[{"type":"function"}]})");
    ASSERT_TRUE(request.ok());
    const std::string text = PromptText(*request);
    EXPECT_EQ(text.substr(0, before.size()), before);
    EXPECT_GT(text.size(), before.size());
    before = text + "assistant\nanswer\n";
    messages += R"(,{"role":"assistant","content":"answer"})";
  }
  EXPECT_EQ(PromptText(Good("", Endpoint::kCompletion)), "hi");
}

}  // namespace
}  // namespace parallax::server::openai
