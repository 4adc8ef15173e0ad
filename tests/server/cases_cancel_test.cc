// Cases about clients that leave. "Within 100 ms" is the fake clock's; http_test.cc has real
// sockets.
#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

constexpr double kNoticedMs = 100;

json Stream(int max_tokens) { return {{"stream", true}, {"max_tokens", max_tokens}}; }

TEST(CaseClientDisconnectDoesNotStopGeneration, InDecode) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {});
  rig.Start();
  const Client client = rig.Chat("hi", Stream(1000));
  ASSERT_TRUE(rig.loop.RunUntil([&] { return client->events().size() >= 4; }));
  EXPECT_EQ(cpu.running(), 1);
  client->Leave();
  const double left = rig.loop.NowMs();
  const std::size_t sent = cpu.streams[0].size();
  ASSERT_TRUE(rig.loop.RunUntil([&] { return cpu.aborts == 1; }, kNoticedMs));
  EXPECT_LE(rig.loop.NowMs() - left, kNoticedMs);
  rig.loop.RunFor(60'000);
  EXPECT_EQ(cpu.streams[0].size(), sent);
  rig.ExpectIdle();
  EXPECT_EQ(rig.dispatcher().metrics().cancelled, 1U);
  EXPECT_EQ(rig.State("cpu").cancelled, 1U);
  EXPECT_EQ(rig.State("cpu").failed, 0U);
  const router::Decision record = rig.Record();
  EXPECT_TRUE(record.outcome.finished);
  EXPECT_EQ(record.outcome.finish, "cancelled");
  EXPECT_EQ(record.outcome.error, "");
}

TEST(CaseClientDisconnectDoesNotStopGeneration, InPrefill) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.prefill_ms = 5});
  rig.Start();
  const Client client = rig.Chat(Words(1000), Stream(8));
  rig.loop.RunFor(300);
  EXPECT_EQ(cpu.running(), 1);
  EXPECT_EQ(client->status, 0);
  client->Leave();
  EXPECT_TRUE(rig.loop.RunUntil([&] { return cpu.aborts == 1; }, kNoticedMs));
  rig.ExpectIdle();
  // Its slot is free at once: the next one is not held up.
  const Client next = rig.Chat("hi", Stream(1));
  rig.loop.RunReady();
  EXPECT_EQ(cpu.running(), 1);
  EXPECT_TRUE(rig.Await(next, 1000));
}

TEST(CaseClientDisconnectDoesNotStopGeneration, OfAClientThatDoesNotStream) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {});
  rig.Start();
  const Client client = rig.Chat("hi", {{"max_tokens", 1000}});
  rig.loop.RunFor(500);
  client->Leave();
  EXPECT_EQ(cpu.aborts, 1);
  rig.ExpectIdle();
}

TEST(CaseClientDisconnectDoesNotStopGeneration, WhileItsTokensAreCounted) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.count_ms = 500});
  rig.Start();
  const Client client = rig.Chat("hi");
  rig.loop.RunFor(100);
  client->Leave();
  rig.loop.RunFor(10'000);
  EXPECT_EQ(cpu.sent.size(), 0U);
  EXPECT_EQ(rig.dispatcher().metrics().queue_cancelled, 1U);
  rig.ExpectIdle();
  // Every job ends in one record, under its own id.
  EXPECT_EQ(rig.Record().id, rig.last_id);
  EXPECT_EQ(rig.Record().outcome.finish, "cancelled");
  EXPECT_EQ(rig.dispatcher().records().order().size(), 1U);
}

// 1 slot; r1 long; r2 queued, then its client closes; r1 ends: r2 is never sent.
TEST(CaseQueuedRequestOfAGoneClientStillRuns, IsNeverSent) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {});
  rig.Start();
  const Client r1 = rig.Chat("one", Stream(50));
  const Client r2 = rig.Chat("two", Stream(50));
  const Client r3 = rig.Chat("three", Stream(5));
  rig.loop.RunFor(100);
  EXPECT_EQ(cpu.sent.size(), 1U);
  EXPECT_EQ(rig.State("cpu").queued.size(), 2U);
  r2->Leave();
  EXPECT_EQ(rig.State("cpu").queued.size(), 1U);
  ASSERT_TRUE(rig.Await(r1));
  ASSERT_TRUE(rig.Await(r3));
  EXPECT_EQ(cpu.sent.size(), 2U);
  EXPECT_EQ(cpu.aborts, 0);
  EXPECT_EQ(rig.dispatcher().metrics().queue_cancelled, 1U);
  const std::string metrics = PrometheusText(rig.dispatcher(), nullptr);
  EXPECT_NE(metrics.find("\nparallax_queue_cancelled_total 1\n"), std::string::npos);
  rig.ExpectIdle();
}

// A backend with one global abort: a queued cancel must never call it.
TEST(CaseCancellingOneRequestKillsAnother, AQueuedCancelAbortsNothing) {
  Rig rig;
  ScriptedBackend& npu =
      rig.Add("npu", {.preemptible = false}, {.single_flight = true, .preemptible_prefill = false});
  rig.Start();
  const Client r1 = rig.Chat("one", {{"stream", true}, {"max_tokens", nullptr}});
  const Client r2 = rig.Chat("two", Stream(20));
  rig.loop.RunFor(30);
  r2->Leave();
  ASSERT_TRUE(rig.Await(r1));
  EXPECT_EQ(npu.aborts, 0);
  EXPECT_EQ(npu.sent.size(), 1U);
  EXPECT_EQ(r1->text(), "w0 w1 w2 w3 w4 w5 w6 w7 ");
  EXPECT_NE(r1->body.find(R"("finish_reason":"stop")"), std::string::npos);
  EXPECT_TRUE(r1->body.ends_with("data: [DONE]\n\n"));
}

// A running cancel ends its own call and no other on the same backend.
TEST(CaseCancellingOneRequestKillsAnother, ARunningCancelEndsOnlyItself) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.slots = 2});
  rig.Start();
  const Client r1 = rig.Chat("one", Stream(30));
  const Client r2 = rig.Chat("two", Stream(30));
  rig.loop.RunFor(100);
  EXPECT_EQ(cpu.running(), 2);
  r2->Leave();
  ASSERT_TRUE(rig.Await(r1));
  EXPECT_EQ(cpu.aborts, 1);
  EXPECT_EQ(r1->body, cpu.streams[0]);
}

// NPU prefill 1300 ms, its client closes at 100 ms: the device is busy until 1300 ms, and a request
// at 200 ms goes to the CPU (predicted first token 900 ms), not to an NPU that would start at 1300.
TEST(CaseNpuAbortIsLateAndCannotStopPrefill, TheDeviceCountsAsBusy) {
  Rig rig;
  rig.options.policy.objective = router::Objective::kTtft;
  // 100 tokens: NPU 1300 ms, CPU 900 ms. (97 words, "user", "assistant".)
  ScriptedBackend& npu = rig.Add("npu", {.prefill_ms = 13, .decode_ms = 10, .preemptible = false},
                                 {.single_flight = true, .preemptible_prefill = false});
  ScriptedBackend& cpu = rig.Add("cpu", {.prefill_ms = 9, .decode_ms = 10});
  rig.Start();
  const double zero = rig.loop.NowMs();
  const Client first = rig.Chat(Words(98, "a"), Stream(8), {.backend = "npu"});
  rig.loop.RunTo(zero + 100);
  first->Leave();
  EXPECT_EQ(npu.aborts, 1);
  EXPECT_EQ(npu.running(), 0);
  rig.loop.RunTo(zero + 200);
  const router::Snapshot seen = rig.dispatcher().MakeSnapshot();
  ASSERT_EQ(seen.backends[0].running.size(), 1U);
  EXPECT_NEAR(seen.backends[0].running[0].prefill_ms, 1100, 1);
  EXPECT_TRUE(seen.backends[0].running[0].cancelled);

  const Client second = rig.Chat(Words(98, "b"), Stream(8));
  ASSERT_TRUE(rig.Await(second));
  EXPECT_EQ(second->header("x-parallax-backend"), "cpu");
  EXPECT_EQ(cpu.sent.size(), 1U);
  const router::Decision record = rig.Record();
  EXPECT_NEAR(record.candidates[0].queue_ms, 1100, 1);  // starts at 1300
  EXPECT_NEAR(record.candidates[1].ttft_ms, 910, 1);

  // A third one that must use the NPU waits for the device, not for ever.
  const Client third = rig.Chat(Words(10, "c"), Stream(2), {.backend = "npu"});
  rig.loop.RunTo(zero + 1290);
  EXPECT_EQ(npu.sent.size(), 1U);
  ASSERT_TRUE(rig.Await(third, 1000));
  EXPECT_GE(rig.journal.entries.back().ms, zero + 1300);
  EXPECT_EQ(npu.max_concurrency, 1);
  rig.ExpectIdle();
}

}  // namespace
}  // namespace parallax::server::fake
