// Answers on their way: what is held back, what is sent, and when.
#include "server/answer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/fake_loop.h"
#include "tests/server/fake_responder.h"

namespace parallax::server::fake {
namespace {

struct Stream {
  explicit Stream(bool stream = true)
      : client(std::make_shared<FakeResponder>(loop)),
        answer(openai::Endpoint::kChat, stream, client) {
    answer.SetHeaders({{"x-parallax-backend", "cpu"}});
  }
  std::string Event(const std::string& data, const std::string& ends = "\n\n") {
    const std::string raw = "data: " + data + ends;
    nlohmann::json chunk;
    const openai::ChunkFacts facts = openai::ReadChunk(openai::Endpoint::kChat, data, &chunk);
    answer.Event(raw, facts, chunk);
    return raw;
  }
  FakeLoop loop;
  std::shared_ptr<FakeResponder> client;
  Answer answer;
};

const char* const kRole = R"({"choices":[{"index":0,"delta":{"role":"assistant"}}]})";
const char* const kText = R"({"choices":[{"index":0,"delta":{"content":"a"}}]})";
const char* const kEnd = R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})";
const char* const kUsage = R"({"choices":[],"usage":{"prompt_tokens":1}})";

TEST(Answer, NothingIsSentBeforeItSpeaks) {
  Stream s;
  std::string sent = s.Event(kRole);
  EXPECT_EQ(s.client->status, 0);
  EXPECT_FALSE(s.answer.committed());
  sent += s.Event(kText);
  EXPECT_EQ(s.client->status, 200);
  EXPECT_EQ(s.client->body, sent);
  EXPECT_EQ(s.client->header("content-type"), "text/event-stream");
  EXPECT_EQ(s.client->header("cache-control"), "no-cache");
  EXPECT_EQ(s.client->header("x-parallax-backend"), "cpu");
  sent += s.Event(kEnd);
  s.answer.Complete();
  EXPECT_EQ(s.client->body, sent);
  EXPECT_TRUE(s.client->answered());
}

// An answer without a word (max_tokens 0, a stop at once) is one.
TEST(Answer, AReasonToFinishIsAnAnswer) {
  Stream s;
  const std::string sent = s.Event(kEnd);
  EXPECT_TRUE(s.answer.spoke());
  s.answer.Complete();
  EXPECT_EQ(s.client->body, sent);
}

TEST(Answer, RestartForgets) {
  for (const bool stream : {true, false}) {
    Stream s(stream);
    s.Event(kRole);
    if (!stream) s.Event(kText);
    s.answer.Restart();
    EXPECT_FALSE(s.answer.spoke());
    const std::string sent = s.Event(kText);
    s.Event(kEnd);
    s.answer.Complete();
    EXPECT_EQ(s.client->text(), "a");
    EXPECT_TRUE(!stream || s.client->body.starts_with(sent));
  }
}

TEST(Answer, UsageIsTakenOutOnlyWhereTheRouterAskedForIt) {
  for (const bool strip : {true, false}) {
    Stream s;
    s.answer.StripUsage(strip);
    s.Event(kText);
    s.Event(kUsage);
    EXPECT_EQ(s.client->body.find("usage") == std::string::npos, strip);
  }
}

// Much without a word: it is let through rather than kept in memory.
TEST(Answer, HoldsBackABoundedAmount) {
  Stream s;
  for (int i = 0; i < 10'000 && s.client->status == 0; ++i) s.Event(kRole);
  EXPECT_EQ(s.client->status, 200);
  EXPECT_LT(s.client->body.size(), 100U << 10);
}

TEST(Answer, Failures) {
  Stream fresh;
  fresh.Event(kRole);
  fresh.answer.Fail({502, {{"Content-Type", "application/json"}}, "{}"});
  EXPECT_EQ(fresh.client->status, 502);
  EXPECT_EQ(fresh.client->body, "{}");
  EXPECT_EQ(fresh.client->header("x-parallax-backend"), "cpu");

  Stream under_way;
  std::string sent = under_way.Event(kText);
  under_way.answer.Fail({502, {}, "{\n \"error\": {}\n}\n"});
  EXPECT_EQ(under_way.client->status, 200);
  EXPECT_EQ(under_way.client->body, sent + "data: { \"error\": {}}\n\n");
  EXPECT_TRUE(under_way.client->answered());

  // After an event that nobody ended: the error is an event of its own.
  Stream ragged;
  sent = ragged.Event(kText);
  sent += ragged.Event(kText, "\n");
  ragged.answer.Fail({502, {}, "{\"error\":{}}"});
  EXPECT_EQ(ragged.client->body, sent + "\ndata: {\"error\":{}}\n\n");
}

}  // namespace
}  // namespace parallax::server::fake
