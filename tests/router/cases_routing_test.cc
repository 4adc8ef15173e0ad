// Cases about where requests go.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "router/breaker.h"
#include "tests/router/fixtures.h"

namespace parallax::router {
namespace {

using fixtures::Chosen;
using fixtures::Fleet;
using fixtures::Rates;
using fixtures::Tokens;

// CPU with 8192 tokens of context, NPU with 4096.
TEST(CaseContextOverflowReportedFiveWays, TriesTheContextThatFitsElse400) {
  Fleet fleet;
  fleet.Add("cpu", Rates(25, 60)).context_tokens = 8192;
  fleet.Add("npu", Rates(11, 150)).context_tokens = 4096;
  EXPECT_EQ(Chosen(fleet.Route(3000, 8)), "npu");
  EXPECT_EQ(Chosen(fleet.Route(5000, 8)), "cpu");
  const Decision d = fleet.Route(9000, 8);
  EXPECT_EQ(d.status, DecisionStatus::kContextOverflow);
  EXPECT_EQ(d.n_prompt_tokens, 9000);
  EXPECT_EQ(d.n_ctx, 8192);
  // And an overflow that a backend reports itself leaves its breaker alone.
  Breaker breaker;
  for (int i = 0; i < 100; ++i) breaker.OnOutcome(BackendOutcome::kContextOverflow, i);
  EXPECT_EQ(breaker.State(100), BreakerState::kClosed);
  EXPECT_EQ(breaker.consecutive_failures(), 0);
}

// A system prompt of 4000 characters, shared by 40 conversations, two equal backends, min_match
// 4096.
TEST(CaseSystemPromptHotSpot, FirstTurnsSplitAndSecondTurnsStay) {
  constexpr size_t kBlock = 16;
  Fleet fleet;
  fleet.policy.min_match_bytes = 4096;
  const CacheShape cache{.tokens_per_symbol = kBlock / 4.0};
  fleet.Add("a", Rates(3, 10), cache);
  fleet.Add("b", Rates(3, 10), cache);
  const std::string system(4000, 's');
  std::vector<std::string> text, home;
  std::map<std::string, int> first;

  const auto turn = [&](const std::string& prompt, const std::string& answer) {
    const std::vector<Symbol> symbols = ByteBlocks(prompt, kBlock);
    const auto bytes = static_cast<int64_t>(prompt.size());
    const Decision d = fleet.Route(
        {.id = "r", .model = "m", .max_new_tokens = 8},
        BackendPrompt{.tokens = bytes / 4, .symbols = symbols, .estimated = true, .bytes = bytes});
    const std::vector<Symbol> all = ByteBlocks(prompt + answer, kBlock);
    fleet.index.Insert(static_cast<BackendId>(*d.chosen), all, symbols.size());
    return Chosen(d);
  };
  for (int i = 0; i < 40; ++i) {
    const std::string prompt = system + "user " + std::to_string(i) + ": " + std::string(200, 'q');
    const std::string answer = "answer " + std::to_string(i * 7919) + std::string(60, 'a');
    home.push_back(turn(prompt, answer));
    text.push_back(prompt + answer);
    ++first[home.back()];
    if (i == 0) {
      EXPECT_GE(fleet.index.entries(), 1);
    }
  }
  EXPECT_GE(first["a"], 12);
  EXPECT_LE(first["a"], 28);
  EXPECT_EQ(first["a"] + first["b"], 40);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(turn(text[i] + " and then? " + std::string(80, 'n'), "so"), home[i]) << i;
  }
}

// Without min_match everything would follow the first request: what the case is about.
TEST(CaseSystemPromptHotSpot, WithoutMinMatchTheFirstBackendDrawsAll) {
  Fleet fleet;
  fleet.Add("a", Rates(3, 10), {});
  fleet.Add("b", Rates(3, 10), {});
  const std::vector<Symbol> system = Tokens(1000);
  fleet.index.Insert(0, system, system.size());
  for (Symbol i = 0; i < 10; ++i) {
    std::vector<Symbol> prompt = system;
    prompt.push_back(5000 + i);
    EXPECT_EQ(Chosen(fleet.Route({.id = "r", .model = "m", .max_new_tokens = 8}, prompt)), "a");
  }
}

TEST(CaseColdRequestsAlwaysToTheSameBackend, SpreadEvenly) {
  for (bool measured : {true, false}) {
    Fleet fleet;
    for (const char* name : {"w0", "w1", "w2", "w3"}) {
      fleet.Add(name, measured ? Rates(3, 10) : PriorModel(BackendKind::kOpenAi), {});
    }
    std::map<std::string, int> count;
    for (Symbol i = 0; i < 400; ++i) {
      const std::vector<Symbol> prompt = Tokens(100, 1000 * i);
      const Decision d = fleet.Route({.id = "r", .model = "m", .max_new_tokens = 8}, prompt);
      fleet.index.Insert(static_cast<BackendId>(*d.chosen), prompt, prompt.size());
      ++count[Chosen(d)];
    }
    ASSERT_EQ(count.size(), 4u);
    for (const auto& [name, n] : count) EXPECT_EQ(n, 100) << name;
  }
}

TEST(CaseColdRequestsAlwaysToTheSameBackend, AnEmptyIndexDoesNotDrawToABusyBackend) {
  Fleet fleet;
  fleet.Add("w0", Rates(3, 10), {}).slots = 4;
  fleet.Add("w1", Rates(3, 10), {}).slots = 4;
  fleet["w0"].running.assign(4, {.prefill_ms = 100, .decode_ms = 500});
  fleet["w0"].queued.assign(6, {.prefill_ms = 100, .decode_ms = 500});
  for (Symbol i = 0; i < 1000; ++i) fleet.index.Insert(1, Tokens(200, 1000 * i), 200);
  const Decision d =
      fleet.Route({.id = "r", .model = "m", .max_new_tokens = 8}, Tokens(100, 5'000'000));
  EXPECT_EQ(Chosen(d), "w1");
}

TEST(CaseAffinityDecidedFromTheWholeFleetOrFromDeadWorkers, OnlyLiveLoadCounts) {
  const std::vector<Symbol> sticky = Tokens(2000);
  const std::vector<Job> five(5, {.prefill_ms = 0, .decode_ms = 300});
  Fleet fleet;
  for (const char* name : {"w0", "w1", "w2"}) fleet.Add(name, Rates(3, 10), {}).slots = 8;
  fleet["w0"].running = fleet["w1"].running = five;
  fleet["w2"].availability = Availability::kDown;
  fleet.index.Insert(1, sticky, sticky.size());
  const RouteRequest request{.id = "r", .model = "m", .max_new_tokens = 8};
  EXPECT_EQ(Chosen(fleet.Route(request, sticky)), "w1");
  // w0 load 50, w1 load 1.
  fleet["w0"].running.assign(8, {.prefill_ms = 0, .decode_ms = 300});
  fleet["w0"].queued.assign(42, {.prefill_ms = 100, .decode_ms = 300});
  fleet["w1"].running.assign(1, {.prefill_ms = 0, .decode_ms = 300});
  EXPECT_EQ(Chosen(fleet.Route(request, sticky)), "w1");
}

// NPU prefill of 1300 ms, the client closes at 100 ms; a request at 200 ms.
TEST(CaseNpuAbortIsLateAndCannotStopPrefill, TheDeviceStaysBusy) {
  Fleet fleet;
  BackendSnapshot& npu = fleet.Add("npu", Rates(0.65, 10));
  npu.single_flight = true;
  npu.preemptible_prefill = false;
  fleet.Add("cpu", Rates(0.89, 10));
  fleet.policy.objective = Objective::kTtft;
  // 1000 tokens: TTFT 660 on an idle NPU, 900 on the CPU.
  EXPECT_EQ(Chosen(fleet.Route(1000, 8)), "npu");
  fleet["npu"].running = {{.prefill_ms = 1300 - 200, .decode_ms = 400, .cancelled = true}};
  const Decision d = fleet.Route(1000, 8);
  EXPECT_EQ(Chosen(d), "cpu");
  EXPECT_EQ(200 + d.candidates[0].queue_ms, 1300);  // on the clock of the case
  EXPECT_EQ(d.candidates[1].queue_ms, 0);
  EXPECT_NEAR(d.candidates[1].ttft_ms, 900, 1e-9);
  // A device that can stop in time would be free at once.
  fleet["npu"].preemptible_prefill = true;
  EXPECT_EQ(Chosen(fleet.Route(1000, 8)), "npu");
}

TEST(CaseNpuKvStateIsNotOpenAiStateless, AHitIsAnExactExtensionOnly) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1, .extension_only = true});
  const std::vector<Symbol> x1 = Tokens(100), y1 = Tokens(80, 5000);
  std::vector<Symbol> x1_answer = x1;
  for (Symbol i = 0; i < 20; ++i) x1_answer.push_back(9000 + i);
  std::vector<Symbol> x2 = x1_answer;
  for (Symbol i = 0; i < 30; ++i) x2.push_back(7000 + i);

  index.Insert(0, x1_answer, x1.size());
  EXPECT_EQ(index.Match(0, x2).reusable, x1_answer.size());  // X1 then X1 + X2: no clear
  EXPECT_EQ(index.Match(0, x1).reusable, 0u);                // the same again is no extension
  std::vector<Symbol> branch = x2;
  branch[110] = 1;
  EXPECT_EQ(index.Match(0, branch).reusable, 0u);  // neither is another answer
  index.Insert(0, y1, y1.size());                  // X1, Y1, X1 + X2: cleared in between
  EXPECT_EQ(index.Match(0, x2).reusable, 0u);
  // An answer whose tokens are not known cannot be seen to be extended.
  std::vector<Symbol> unknown = x1;
  unknown.push_back(kUnknownSymbol);
  index.Insert(0, unknown, x1.size());
  EXPECT_EQ(index.Match(0, x2).reusable, 0u);
}

// t(n) = 7.81 + 0.00422 n + 2.736e-6 n^2 seconds.
TEST(CaseFixedTimeoutVersusSuperlinearPrefill, AdmitsAndTimesOutByTheQuadraticModel) {
  LatencyModel m;
  m.beta = {7810, 4.22, 2 * 2.736e-3, 0, 0, 0};  // A is p^2 / 2 without a cache
  m.source = ModelSource::kFitted;
  m.p = {1024, 8192};
  m.g = {0, 4096};
  m.p_cache = {0, 0};
  Fleet fleet;
  fleet.Add("npu", m);
  const auto route = [&](int64_t n, double deadline_s) {
    return fleet.Route(
        {.id = "r", .model = "m", .max_new_tokens = 0, .deadline_ms = deadline_s * 1000},
        BackendPrompt{.tokens = n});
  };
  const Decision refused = route(16000, 300);
  EXPECT_EQ(refused.status, DecisionStatus::kDeadline);
  EXPECT_NEAR(refused.best_total_ms, 775'746, 1);  // a line through two points says 288 s
  EXPECT_NE(refused.candidates[0].prediction.outside & kOutsidePrompt, 0);
  EXPECT_EQ(Chosen(route(16000, 800)), "npu");

  const Decision d = route(8192, 300);
  EXPECT_EQ(Chosen(d), "npu");
  EXPECT_NEAR(d.candidates[0].total_ms, 225'990, 1);  // the line: 145.7 s
  EXPECT_GT(TimeoutMs(d.candidates[0]), 200'000);
  // At least twice the prediction, so that a loaded machine does not kill it either.
  EXPECT_GT(TimeoutMs(d.candidates[0]), 2 * 225'990);
}

// Eight at once; the NPU takes one at a time, the CPU two.
TEST(CaseNpuIsSingleClient, SpillsToTheCpuAndThenSays429) {
  Fleet fleet;
  BackendSnapshot& npu = fleet.Add("npu", Rates(1, 10));
  npu.single_flight = true;
  npu.slots = 4;  // whatever it claims
  npu.queue_limit = 3;
  BackendSnapshot& cpu = fleet.Add("cpu", Rates(3, 10));
  cpu.slots = 2;
  cpu.queue_limit = 2;
  std::map<std::string, int> count;
  for (int i = 0; i < 8; ++i) {
    const Decision d = fleet.Route(300, 8);
    ASSERT_EQ(d.status, DecisionStatus::kRouted) << i;
    ++count[Chosen(d)];
    BackendSnapshot& b = fleet.snapshot.backends[*d.chosen];
    const Candidate& c = d.candidates[*d.chosen];
    const Job job{.prefill_ms = c.prediction.prefill_ms, .decode_ms = c.prediction.decode_ms};
    const size_t slots = b.single_flight ? 1 : static_cast<size_t>(b.slots);
    (b.running.size() < slots ? b.running : b.queued).push_back(job);
  }
  EXPECT_EQ(fleet["npu"].running.size(), 1u);
  EXPECT_GE(count["npu"], 2);
  EXPECT_GE(count["cpu"], 2);
  const Decision full = fleet.Route(300, 8);
  EXPECT_EQ(full.status, DecisionStatus::kQueueFull);
  // The NPU's running job ends after 380 ms, so within the first whole second.
  EXPECT_EQ(full.retry_after_s, 1);
}

TEST(CaseCachedVersusUncachedAnswersDiffer, RequestsCanAvoidTheCacheAndBePinned) {
  Fleet fleet;
  fleet.Add("a", Rates(3, 10));
  fleet.Add("b", Rates(2, 10));
  const std::vector<Symbol> prompt = Tokens(1000);
  fleet.index.Insert(0, prompt, prompt.size());
  RouteRequest request{.id = "r", .model = "m", .max_new_tokens = 8};
  EXPECT_EQ(Chosen(fleet.Route(request, prompt)), "a");
  request.no_cache = true;
  const Decision uncached = fleet.Route(request, prompt);
  EXPECT_EQ(Chosen(uncached), "b");
  EXPECT_EQ(uncached.candidates[0].predicted_reuse, 0);
  request.pinned = "a";
  EXPECT_EQ(Chosen(fleet.Route(request, prompt)), "a");
}

}  // namespace
}  // namespace parallax::router
