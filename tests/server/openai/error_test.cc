#include "server/openai/error.h"

#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

namespace parallax::server::openai {
namespace {

using nlohmann::json;

TEST(ErrorResponse, HasTheFormClientsExpect) {
  const http::Response r = ErrorResponse(404, "there is no \"m\"\n\xFF", "model_not_found");
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(http::FindHeader(r.headers, "content-type"), "application/json");
  const json error = json::parse(r.body)["error"];
  EXPECT_EQ(error["message"], "there is no \"m\"\n\xEF\xBF\xBD");
  EXPECT_EQ(error["type"], "not_found_error");
  EXPECT_EQ(error["code"], "model_not_found");
  EXPECT_TRUE(error.contains("param"));
  EXPECT_EQ(json::parse(ErrorResponse(400, "x").body)["error"]["code"], nullptr);
}

TEST(ErrorResponse, Types) {
  EXPECT_EQ(ErrorType(400), "invalid_request_error");
  EXPECT_EQ(ErrorType(401), "authentication_error");
  EXPECT_EQ(ErrorType(413), "invalid_request_error");
  EXPECT_EQ(ErrorType(429), "rate_limit_error");
  EXPECT_EQ(ErrorType(500), "server_error");
  EXPECT_EQ(ErrorType(502), "server_error");
  EXPECT_EQ(ErrorType(503), "unavailable_error");
  EXPECT_EQ(ErrorType(504), "timeout_error");
}

TEST(ContextErrorResponse, SaysBothNumbersWhereTheyAreKnown) {
  const json error = json::parse(ContextErrorResponse(9000, 8192).body)["error"];
  EXPECT_EQ(error["code"], 400);
  EXPECT_EQ(error["type"], "exceed_context_size_error");
  EXPECT_EQ(error["n_prompt_tokens"], 9000);
  EXPECT_EQ(error["n_ctx"], 8192);
  const json unknown = json::parse(ContextErrorResponse(-1, 0).body)["error"];
  EXPECT_FALSE(unknown.contains("n_prompt_tokens"));
  EXPECT_FALSE(unknown.contains("n_ctx"));
}

// Slots that share one context can fill it under a prompt that fits: it is not said to be too long.
TEST(ContextErrorResponse, APromptThatFitsIsNotTheCause) {
  const auto message = [](std::int64_t prompt, std::int64_t context) {
    return json::parse(ContextErrorResponse(prompt, context).body)["error"]["message"]
        .get<std::string>();
  };
  EXPECT_EQ(message(257, 256), "the prompt has 257 tokens, the largest context here holds 256");
  EXPECT_EQ(message(256, 256), "the prompt has 256 tokens, the largest context here holds 256");
  EXPECT_EQ(message(1, 256),
            "the context of 256 tokens was full before the answer to 1 tokens had ended");
}

TEST(IsContextOverflow, InEveryWayTheySayIt) {
  for (const char* text :
       {"Context size has been exceeded.", R"({"error":{"type":"exceed_context_size_error"}})",
        "the request exceeds the available context size, try increasing it",
        R"({"error":{"code":"context_length_exceeded"}})",
        "This model's maximum context length is 4096 tokens"}) {
    EXPECT_TRUE(IsContextOverflow(400, text)) << text;
    EXPECT_TRUE(IsContextOverflow(500, text)) << text;
    EXPECT_FALSE(IsContextOverflow(200, text)) << text;
  }
  EXPECT_FALSE(IsContextOverflow(500, "out of memory"));
  EXPECT_FALSE(IsContextOverflow(400, ""));
}

}  // namespace
}  // namespace parallax::server::openai
