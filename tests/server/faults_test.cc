// Backends that fail, in every way, and clients that are slow.
#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

json Stream(int max_tokens) { return {{"stream", true}, {"max_tokens", max_tokens}}; }

struct Failure {
  const char* name;
  Fault fault;
  int status;      // what the client gets where nobody else can answer
  bool retryable;  // goes to another backend, and counts against this one
};
class FailureTest : public testing::TestWithParam<Failure> {};

TEST_P(FailureTest, AloneItGetsTheRightStatus) {
  for (const bool stream : {false, true}) {
    Rig rig;
    rig.Add("cpu", {.fault = GetParam().fault});
    rig.Start();
    const Client client = rig.Chat("hi", {{"stream", stream}});
    ASSERT_TRUE(rig.Await(client, 1e6));
    EXPECT_EQ(client->status, GetParam().status);
    EXPECT_FALSE(client->streamed);
    EXPECT_EQ(client->header("content-type"), "application/json");
    EXPECT_NE(client->error_message(), "");
    EXPECT_EQ(rig.State("cpu").failed, GetParam().retryable ? 1U : 0U);
    const router::Decision record = rig.Record();
    EXPECT_TRUE(record.outcome.finished);
    EXPECT_NE(record.outcome.error, "");
    EXPECT_EQ(rig.dispatcher().metrics().answers.at(client->status), 1U);
    rig.ExpectIdle();
  }
}

TEST_P(FailureTest, AnotherBackendTakesIt) {
  if (!GetParam().retryable) GTEST_SKIP() << "is the client's own fault";
  for (const bool stream : {false, true}) {
    Rig rig;
    ScriptedBackend& bad = rig.Add("bad", {.prefill_ms = 0.5, .fault = GetParam().fault});
    ScriptedBackend& good = rig.Add("good", {.prefill_ms = 1});
    rig.Start();
    const Client client = rig.Chat("hi", {{"stream", stream}});
    ASSERT_TRUE(rig.Await(client, 1e6));
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(client->text(), "w0 w1 w2 w3 w4 w5 w6 w7 ");
    EXPECT_EQ(client->header("x-parallax-backend"), "good");
    EXPECT_EQ(bad.sent.size(), 1U);
    EXPECT_EQ(good.sent.size(), 1U);
    EXPECT_TRUE(!stream || client->body == good.streams[0]);
    EXPECT_EQ(rig.dispatcher().metrics().retries, 1U);
    EXPECT_EQ(rig.Record().outcome.error, "");
    EXPECT_EQ(rig.dispatcher().records().order().size(), 1U);
    rig.ExpectIdle();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FailureTest,
    testing::Values(Failure{"Refuse", Fault::kRefuse, 502, true},
                    Failure{"Hang", Fault::kHang, 504, true},
                    Failure{"DieBefore", Fault::kDieBefore, 502, true},
                    Failure{"Garbage", Fault::kGarbage, 502, true},
                    Failure{"BrokenEvents", Fault::kBrokenEvents, 502, true},
                    Failure{"EmptyStream", Fault::kEmptyStream, 502, true},
                    Failure{"Status500", Fault::kStatus, 500, true},
                    Failure{"ErrorInStream", Fault::kErrorInStream, 500, true}),
    [](const testing::TestParamInfo<Failure>& way) { return std::string(way.param.name); });

// The key is the router's to give: nobody else's mistake, and another backend may take it.
TEST(Faults, ABackendThatDoesNotAcceptTheRoutersKeyHasFailed) {
  for (const int status : {401, 403}) {
    Rig rig;
    rig.Add("a", {.fault = Fault::kStatus, .fault_status = status, .fault_body = "{}"});
    rig.Start();
    const Client alone = rig.Chat("hi");
    ASSERT_TRUE(rig.Await(alone));
    EXPECT_EQ(alone->status, 502);
    EXPECT_NE(alone->error_message().find("its api_key is not accepted"), std::string::npos);
    EXPECT_EQ(rig.State("a").failed, 1U);
    Rig pair;
    pair.Add("a", {.fault = Fault::kStatus, .fault_status = status, .fault_body = "{}"});
    pair.Add("b", {.decode_ms = 50});
    pair.Start();
    const Client client = pair.Chat("hi");
    ASSERT_TRUE(pair.Await(client));
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(client->header("x-parallax-backend"), "b");
  }
}

// A client's own mistake is told in the backend's words, once.
TEST(Faults, AClientsErrorIsPassedOn) {
  Rig rig;
  const std::string words = R"({"error":{"code":422,"message":"no such sampler","type":"x"}})";
  for (const char* name : {"a", "b"}) {
    rig.Add(name, {.fault = Fault::kStatus, .fault_status = 422, .fault_body = words});
  }
  rig.Start();
  const Client client = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->status, 422);
  EXPECT_EQ(client->body, words);
  EXPECT_EQ(rig.dispatcher().metrics().retries, 0U);
  EXPECT_EQ(rig.State("a").breaker.consecutive_failures(), 0);
}

// Where every backend was tried, the client gets the last one's own words and status.
TEST(Faults, TheLastBackendsAnswerIsTold) {
  Rig rig;
  const std::string words = R"({"error":{"code":500,"message":"sampling failed","type":"x"}})";
  for (const char* name : {"a", "b"}) {
    rig.Add(name, {.fault = Fault::kStatus, .fault_body = words});
  }
  rig.Start();
  const Client client = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->status, 500);
  EXPECT_EQ(client->body, words);
  EXPECT_EQ(rig.dispatcher().metrics().retries, 1U + 1U);
}

// Something was sent: no other backend may take over; the client is told inside the stream.
TEST(Faults, DiesInsideAStream) {
  for (const Fault fault : {Fault::kDieMid, Fault::kNoFinish, Fault::kStallMid}) {
    Rig rig;
    rig.Add("bad", {.prefill_ms = 0.5, .fault = fault});
    ScriptedBackend& good = rig.Add("good", {.prefill_ms = 1});
    rig.Start();
    const Client client = rig.Chat("hi", Stream(8));
    ASSERT_TRUE(rig.Await(client, 1e6));
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(good.sent.size(), 0U);
    const auto events = client->events();
    ASSERT_GE(events.size(), 4U);
    const json last = json::parse(events.back());
    EXPECT_TRUE(last.contains("error")) << events.back();
    EXPECT_EQ(client->body.find("[DONE]"), std::string::npos);
    EXPECT_EQ(rig.State("bad").failed, 1U);
    rig.ExpectIdle();
  }
}

// A client that does not stream has seen nothing yet: the answer is made again elsewhere, whole.
TEST(Faults, DiesInsideAnAnswerThatIsNotStreamed) {
  Rig rig;
  rig.Add("bad", {.prefill_ms = 0.5, .fault = Fault::kDieMid});
  rig.Add("good", {.prefill_ms = 1});
  rig.Start();
  const Client client = rig.Chat("hi", {{"max_tokens", 5}});
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(client->text(), "w0 w1 w2 w3 w4 ");
}

// The backend's own error event inside the stream is passed on as it came, and not said twice.
TEST(Faults, AnErrorInsideAStreamIsToldOnce) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.fault = Fault::kErrorMidStream});
  rig.Start();
  const Client client = rig.Chat("hi", Stream(8));
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->body, cpu.streams[0]);
  EXPECT_NE(client->body.find("out of order"), std::string::npos);
  EXPECT_EQ(rig.State("cpu").failed, 1U);
  EXPECT_EQ(rig.Record().outcome.error, "out of order");
}

TEST(Faults, AWholeAnswerInsteadOfAStream) {
  Rig rig;
  rig.Add("cpu", {.fault = Fault::kAnswerNotStream});
  rig.Start();
  const Client plain = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(plain));
  EXPECT_EQ(plain->status, 200);
  EXPECT_EQ(plain->text(), "whole");
  EXPECT_EQ(rig.Record().outcome.prompt_tokens, 5);
  const Client streams = rig.Chat("hi", Stream(3));
  ASSERT_TRUE(rig.Await(streams));
  EXPECT_EQ(streams->status, 502);
}

// Three failures in a row open the breaker: what waits goes elsewhere, later ones do not come.
TEST(Faults, BreakerOpensAndCloses) {
  Rig rig;
  ScriptedBackend& bad = rig.Add("bad", {.prefill_ms = 1, .fault = Fault::kDieBefore});
  rig.Start();
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(rig.Chat("hi"));
  for (const Client& client : clients) ASSERT_TRUE(rig.Await(client, 10'000));
  EXPECT_EQ(bad.sent.size(), 3U);
  EXPECT_EQ(clients[2]->status, 502);
  EXPECT_EQ(clients[3]->status, 503);  // told, not held until the breaker closes
  EXPECT_EQ(rig.dispatcher().MakeSnapshot().backends[0].availability,
            router::Availability::kBreakerOpen);
  const auto logged = [&](const char* event) {
    return std::count_if(rig.log.begin(), rig.log.end(),
                         [&](const LogEntry& e) { return e.event == event; });
  };
  EXPECT_EQ(logged("breaker_open"), 1);
  // It is well again: after the backoff one trial closes the breaker.
  bad.script.fault = Fault::kNone;
  rig.loop.RunFor(1100);
  const Client trial = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(trial, 10'000));
  EXPECT_EQ(trial->status, 200);
  EXPECT_EQ(rig.State("bad").breaker.State(rig.loop.NowMs()), router::BreakerState::kClosed);
}

// While a trial runs the others wait for its end; nothing polls.
TEST(Faults, ATrialUnderWayIsNotPolled) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.slots = 2, .fault = Fault::kDieBefore, .fault_times = 3});
  rig.options.probe_ready_ms = 5000;
  rig.Start();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.Await(rig.Chat("hi"), 10'000));
  rig.loop.RunFor(1100);
  const Client trial = rig.Chat("hi", Stream(1000));  // 10 s
  const Client waits = rig.Chat("hi", Stream(1));
  rig.loop.RunFor(100);
  EXPECT_EQ(cpu.running(), 1);
  const std::uint64_t before = rig.loop.turns;
  rig.loop.RunFor(5000);
  EXPECT_LT(rig.loop.turns - before, 600U);  // 500 words and a few probes
  ASSERT_TRUE(rig.Await(trial));
  rig.loop.RunFor(5000);
  EXPECT_TRUE(waits->answered());
}

TEST(Faults, SilenceIsMeasuredWithoutComments) {
  Rig rig;
  ScriptedBackend& cpu =
      rig.Add("cpu", {.ping_ms = 1000, .fault = Fault::kStallMid, .fault_after = 2});
  rig.Start();
  const Client client = rig.Chat("hi", Stream(8));
  ASSERT_TRUE(rig.Await(client, rig.options.silence_ms + 1000));
  EXPECT_EQ(cpu.aborts, 1);
  EXPECT_NE(client->body.find("\"error\""), std::string::npos);
}

// Comments during a long prefill neither end the wait early nor make it endless.
TEST(Faults, PingsDuringPrefill) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.prefill_ms = 10, .ping_ms = 1000});
  rig.Start();
  const Client client = rig.Chat(Words(8000), Stream(2));  // 80 s
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(client->body, cpu.streams[0]);
  EXPECT_NE(client->body.find(": ping"), std::string::npos);
  cpu.script.fault = Fault::kHang;
  const Client hangs = rig.Chat("hi", Stream(2));
  ASSERT_TRUE(rig.Await(hangs, 40'000));
  EXPECT_EQ(hangs->status, 504);
}

// A client that reads nothing slows its backend; its time is not held against the backend.
TEST(Faults, ASlowClientPausesItsBackend) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.decode_ms = 1});
  rig.Start();
  const Client client = rig.Chat("hi", Stream(4000));
  client->slow = true;
  rig.loop.RunFor(200'000);
  EXPECT_EQ(cpu.pauses, 1);
  EXPECT_EQ(cpu.aborts, 0);
  EXPECT_EQ(cpu.running(), 1);
  EXPECT_LT(client->body.size(), 300U << 10);
  EXPECT_GT(client->body.size(), 256U << 10);
  client->slow = false;
  client->Drain();
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->body, cpu.streams[0]);
  EXPECT_EQ(rig.State("cpu").failed, 0U);
  EXPECT_EQ(rig.State("cpu").fit->model().observations, 100);  // its times say nothing
}

// Paused, resumed, and then silent: the wait has an end again.
TEST(Faults, SilenceAfterAPause) {
  Rig rig;
  ScriptedBackend& cpu =
      rig.Add("cpu", {.decode_ms = 1, .fault = Fault::kStallMid, .fault_after = 3000});
  rig.Start();
  const Client client = rig.Chat("hi", Stream(4000));
  client->slow = true;
  rig.loop.RunFor(100'000);
  ASSERT_EQ(cpu.pauses, 1);
  cpu.script.fault_after = 0;
  client->slow = false;
  client->Drain();
  ASSERT_TRUE(rig.Await(client, rig.options.silence_ms + 10));
  EXPECT_EQ(cpu.aborts, 1);
}

}  // namespace
}  // namespace parallax::server::fake
