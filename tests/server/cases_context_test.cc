// Cases about contexts that are too small, caches that are guessed wrong, and time-outs.
#include <random>

#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

// A chat prompt of n tokens: n - 2 words, "user" and "assistant".
std::string Prompt(std::int64_t tokens, std::string_view tag = "p") {
  return Words(tokens - 2, tag);
}

struct TwoContexts {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.context = 8192, .prefill_ms = 2});
  ScriptedBackend& npu = rig.Add("npu", {.context = 4096, .prefill_ms = 1});
  TwoContexts() { rig.Start(); }
  std::uint64_t Failures() { return rig.State("cpu").failed + rig.State("npu").failed; }
  int BreakerCount() {
    return rig.State("cpu").breaker.consecutive_failures() +
           rig.State("npu").breaker.consecutive_failures();
  }
};

TEST(CaseContextOverflowReportedFiveWays, GoesWhereItFits) {
  TwoContexts t;
  const Client client = t.rig.Chat(Prompt(5000));
  ASSERT_TRUE(t.rig.Await(client));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(client->header("x-parallax-backend"), "cpu");
  EXPECT_EQ(t.npu.sent.size(), 0U);
}

TEST(CaseContextOverflowReportedFiveWays, NoneHoldsIt) {
  TwoContexts t;
  const Client client = t.rig.Chat(Prompt(9000));
  ASSERT_TRUE(t.rig.Await(client));
  EXPECT_EQ(client->status, 400);
  const json error = client->json()["error"];
  EXPECT_EQ(error["code"], 400);
  EXPECT_EQ(error["type"], "exceed_context_size_error");
  EXPECT_EQ(error["n_prompt_tokens"], 9000);
  EXPECT_EQ(error["n_ctx"], 8192);
  EXPECT_TRUE(error["message"].is_string());
  EXPECT_EQ(t.cpu.sent.size() + t.npu.sent.size(), 0U);
}

struct Overflow {
  const char* name;
  Fault fault;
  int status;
  const char* body;
};
class CaseContextOverflowFromTheBackend : public testing::TestWithParam<Overflow> {};

// However a backend says it, the client gets the same 400; nothing is tried again, no breaker
// moves.
TEST_P(CaseContextOverflowFromTheBackend, IsOneStatus) {
  const Overflow& how = GetParam();
  for (const bool stream : {false, true}) {
    TwoContexts t;
    for (ScriptedBackend* backend : {&t.cpu, &t.npu}) {
      backend->script.fault = how.fault;
      backend->script.fault_status = how.status;
      backend->script.fault_body = how.body;
    }
    const Client client = t.rig.Chat(Prompt(1000), {{"stream", stream}});
    ASSERT_TRUE(t.rig.Await(client));
    EXPECT_EQ(client->status, 400);
    EXPECT_EQ(client->json()["error"]["type"], "exceed_context_size_error");
    EXPECT_EQ(client->json()["error"]["n_ctx"], 4096);
    EXPECT_EQ(client->json()["error"]["n_prompt_tokens"], 1000);
    EXPECT_EQ(t.cpu.sent.size() + t.npu.sent.size(), 1U);
    EXPECT_EQ(t.Failures(), 0U);
    EXPECT_EQ(t.BreakerCount(), 0);
    EXPECT_EQ(t.rig.dispatcher().metrics().retries, 0U);
    t.rig.ExpectIdle();
  }
}
INSTANTIATE_TEST_SUITE_P(
    Ways, CaseContextOverflowFromTheBackend,
    testing::Values(
        Overflow{"Status500", Fault::kStatus, 500,
                 R"({"error":{"code":500,"message":"Context size has been exceeded.",)"
                 R"("type":"server_error"}})"},
        Overflow{"Status400", Fault::kStatus, 400,
                 R"({"error":{"code":400,"message":"request (1000 tokens) exceeds the available )"
                 R"(context size (512 tokens), try increasing it","type":)"
                 R"("exceed_context_size_error","n_prompt_tokens":1000,"n_ctx":4096}})"},
        Overflow{"OpenAiCode", Fault::kStatus, 400,
                 R"({"error":{"message":"This model's maximum context length is 512 tokens.",)"
                 R"("type":"invalid_request_error","code":"context_length_exceeded"}})"},
        Overflow{"InStream", Fault::kErrorInStream, 200,
                 R"({"error":{"code":500,"message":"Context size has been exceeded.",)"
                 R"("type":"server_error"}})"},
        Overflow{"InStreamByType", Fault::kErrorInStream, 200,
                 R"({"error":{"code":400,"message":"too long",)"
                 R"("type":"exceed_context_size_error"}})"}),
    [](const testing::TestParamInfo<Overflow>& way) { return std::string(way.param.name); });

// 200, a stream with no delta and finish null: 502, of every backend that could be tried.
TEST(CaseContextOverflowReportedFiveWays, AnEmptyStreamIs502) {
  for (const bool stream : {false, true}) {
    TwoContexts t;
    t.cpu.script.fault = t.npu.script.fault = Fault::kEmptyStream;
    const Client client = t.rig.Chat(Prompt(1000), {{"stream", stream}});
    ASSERT_TRUE(t.rig.Await(client));
    EXPECT_EQ(client->status, 502);
    EXPECT_FALSE(client->streamed);
    EXPECT_NE(client->error_message(), "");
  }
}

// Answers {"timings":{"cache_n":0,"prompt_n":290}} where the router predicted 285.
TEST(CasePromptCacheSkippedWhenASlotIsPinned, TheIndexBelievesTheReport) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {});
  rig.Start();
  ASSERT_TRUE(rig.Await(rig.Chat(Prompt(285), {{"max_tokens", 1}})));
  const double hit_before = rig.dispatcher().index().Gauges(0).hit_ratio;

  // The same words and five more. Another slot of the server took it: nothing reused.
  cpu.ForgetCache();
  const std::string longer = Prompt(285) + " q0 q1 q2 q3 q4";
  const Client client = rig.Chat(longer, {{"max_tokens", 1}});
  ASSERT_TRUE(rig.Await(client));
  const router::Decision record = rig.Record();
  EXPECT_EQ(record.candidates[0].predicted_reuse, 284);  // all but "assistant", which moved
  EXPECT_EQ(record.outcome.cached_tokens, 0);
  EXPECT_EQ(record.outcome.prompt_tokens, 290);
  EXPECT_EQ(rig.dispatcher().metrics().prefix_mispredict, 1U);
  EXPECT_LE(rig.dispatcher().index().Gauges(0).hit_ratio, hit_before);
  const std::string metrics = PrometheusText(rig.dispatcher(), nullptr);
  EXPECT_NE(metrics.find("\nparallax_prefix_mispredict_total 1\n"), std::string::npos);

  // The next identical request's prefill is predicted with all 290.
  ASSERT_TRUE(rig.Await(rig.Chat(longer, {{"max_tokens", 1}})));
  EXPECT_EQ(rig.Record().candidates[0].workload.cached_tokens, 0);
  EXPECT_EQ(rig.Record().candidates[0].workload.Effective(), 290);
}

TEST(CaseCachedVersusUncachedAnswersDiffer, CachePromptFalseIsPassedOnAndPredicted) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {});
  rig.Start();
  ASSERT_TRUE(rig.Await(rig.Chat(Prompt(200))));
  ASSERT_TRUE(rig.Await(rig.Chat(Prompt(200), {{"cache_prompt", false}})));
  EXPECT_EQ(rig.Record().candidates[0].workload.cached_tokens, 0);
  EXPECT_NE(cpu.sent[1].text.find(R"("cache_prompt":false)"), std::string::npos);
}

// Backend cache of 4096 tokens, the router believes 16384: after 200 requests it knows better.
TEST(CaseRouterGuessesTheCache, CapacityIsLearned) {
  Rig rig;
  rig.Add("cpu", {.prefill_ms = 0.1, .decode_ms = 1, .cache_tokens = 4096},
          {.cache_tokens = 16384});
  rig.Start();
  std::mt19937 random(7);
  std::vector<std::string> conversations;
  for (int i = 0; i < 24; ++i) conversations.push_back(Words(400, fmt::format("c{}x", i)));
  double wrong = 0, prompt = 0;
  for (int turn = 0; turn < 200; ++turn) {
    // Some conversations come back often, others seldom.
    const auto pick =
        static_cast<std::size_t>(std::pow(static_cast<double>(random() % 1000) / 1000.0, 2.0) * 24);
    const Client client = rig.Chat(conversations[pick], {{"max_tokens", 1}});
    ASSERT_TRUE(rig.Await(client));
    const router::Decision record = rig.Record();
    if (turn < 100) continue;  // it learns
    wrong += std::abs(static_cast<double>(record.candidates[0].predicted_reuse -
                                          record.outcome.cached_tokens.value_or(0)));
    prompt += static_cast<double>(record.outcome.prompt_tokens.value_or(0));
  }
  EXPECT_LT(wrong / prompt, 0.10);
  EXPECT_LT(rig.dispatcher().index().Gauges(0).capacity_symbols, 8192);
}

// SYS of 4000 characters shared by 40 conversations, 2 equal backends, min_match 4096 characters.
TEST(CaseSystemPromptHotSpot, FirstTurnsSpreadAndSecondTurnsStick) {
  Rig rig;
  rig.options.policy.min_match_bytes = 4096;
  std::string system;
  while (system.size() < 4000) system += fmt::format("s{} ", system.size());
  system.resize(4000);
  for (const char* name : {"a", "b"}) {
    rig.Add(name, {.prefill_ms = 1, .decode_ms = 5, .cache_tokens = 1 << 20},
            {.cache_tokens = 1 << 20});
  }
  rig.Start();
  const auto turn = [&](int conversation, const std::string& answer) {
    json messages = {{{"role", "system"}, {"content", system}},
                     {{"role", "user"}, {"content", Words(60, fmt::format("u{}x", conversation))}}};
    if (!answer.empty()) {
      messages.push_back({{"role", "assistant"}, {"content", answer}});
      messages.push_back({{"role", "user"}, {"content", "and then?"}});
    }
    const Client client = rig.Send(openai::Endpoint::kChat,
                                   {{"model", "m"}, {"max_tokens", 4}, {"messages", messages}});
    EXPECT_TRUE(rig.Await(client));
    return client;
  };
  std::vector<Client> first;
  int on_a = 0;
  for (int c = 0; c < 40; ++c) {
    first.push_back(turn(c, ""));
    on_a += first.back()->header("x-parallax-backend") == "a";
    EXPECT_GE(rig.dispatcher().index().entries(), 1);
  }
  EXPECT_GE(on_a, 12);
  EXPECT_LE(on_a, 28);
  for (int c = 0; c < 40; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const Client second = turn(c, first[at]->text());
    EXPECT_EQ(second->header("x-parallax-backend"), first[at]->header("x-parallax-backend")) << c;
    EXPECT_EQ(rig.Record().outcome.cached_tokens,
              rig.Record().candidates[*rig.Record().chosen].predicted_reuse);
  }
}

// --prefix-index-bytes: the gauge stays below it, recent prompts still hit.
TEST(CaseRoutersPrefixIndexGrowsWithoutBound, StaysBelowItsBytes) {
  Rig rig;
  rig.options.index.byte_cap = 256 << 10;
  rig.Add("cpu", {.prefill_ms = 0.01, .decode_ms = 0.1, .cache_tokens = 1 << 30},
          {.cache_tokens = 1 << 30});
  rig.Start();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(rig.Await(rig.Chat(Words(200, fmt::format("n{}x", i)), {{"max_tokens", 1}})));
    ASSERT_LE(rig.dispatcher().index().bytes(), rig.options.index.byte_cap);
  }
  ASSERT_TRUE(rig.Await(rig.Chat(Words(200, "n990x"), {{"max_tokens", 1}})));
  EXPECT_EQ(rig.Record().candidates[0].predicted_reuse, 201);
  EXPECT_EQ(rig.Record().outcome.cached_tokens, 201);
}

// t(n) = 7.81 + 0.00422 n + 2.736e-6 n^2 seconds.
TEST(CaseFixedTimeoutVersusSuperlinearPrefill, TheTimeOutFollowsThePrediction) {
  router::BackendModels curve = Rates(4.22, 1, 7810);
  curve.extended.beta[2] = 2.736e-3 * 2;  // of A = p_eff (p_cache + p_eff / 2)
  Rig rig;
  ScriptedBackend& npu = rig.Add("npu", {.context = 32768, .decode_ms = 1}, {}, curve);
  rig.Start();
  const double predicted_s = 7.81 + 0.00422 * 8192 + 2.736e-6 * 8192 * 8192;  // 226 s

  // Not admitted: 16000 tokens take 776 s, its client waits 300 s.
  const Client hopeless =
      rig.Chat(Prompt(16'000), {{"timeout", 300}, {"max_tokens", 1}, {"stream", true}});
  ASSERT_TRUE(rig.Await(hopeless, 10'000));
  EXPECT_EQ(hopeless->status, 503);
  EXPECT_EQ(hopeless->json()["error"]["code"], "deadline");
  EXPECT_EQ(npu.sent.size(), 0U);

  // 8192 tokens that take what was predicted are not killed at 200 s.
  npu.script.prefill_ms = predicted_s * 1000 / 8192;
  const Client long_one = rig.Chat(Prompt(8192), {{"max_tokens", 1}, {"stream", true}});
  const double sent = rig.loop.NowMs();
  rig.loop.RunFor(200'000);
  EXPECT_EQ(npu.running(), 1);
  ASSERT_TRUE(rig.Await(long_one));
  EXPECT_EQ(long_one->status, 200);
  EXPECT_NEAR(rig.loop.NowMs() - sent, predicted_s * 1000, 1000);

  // One that hangs is given up at k times the prediction.
  npu.script.fault = Fault::kHang;
  const Client hangs = rig.Chat(Prompt(8192, "x"), {{"max_tokens", 1}, {"stream", true}});
  const double began = rig.loop.NowMs();
  ASSERT_TRUE(rig.Await(hangs));
  EXPECT_EQ(hangs->status, 504);
  EXPECT_GT(rig.loop.NowMs() - began, 2 * predicted_s * 1000);
  EXPECT_LT(rig.loop.NowMs() - began, 4 * predicted_s * 1000);
  EXPECT_EQ(npu.aborts, 1);
}

}  // namespace
}  // namespace parallax::server::fake
