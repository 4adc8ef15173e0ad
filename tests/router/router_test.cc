#include "router/router.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/router/fixtures.h"

namespace parallax::router {
namespace {

using fixtures::Chosen;
using fixtures::Fleet;
using fixtures::Rates;
using fixtures::Tokens;

Fleet CpuAndNpu() {
  Fleet fleet;
  fleet.Add("cpu", Rates(3, 10)).context_tokens = 8192;
  BackendSnapshot& npu = fleet.Add("npu", Rates(1, 40));
  npu.context_tokens = 4096;
  npu.single_flight = true;
  npu.preemptible_prefill = false;
  return fleet;
}

TEST(Decide, TakesTheFastestAndSaysWhy) {
  Fleet fleet = CpuAndNpu();
  const Decision d = fleet.Route({.id = "r7", .model = "m", .max_new_tokens = 32}, Tokens(1024));
  ASSERT_EQ(d.status, DecisionStatus::kRouted);
  EXPECT_EQ(Chosen(d), "npu");  // 1024 + 1280 against 3072 + 320
  EXPECT_EQ(d.reason,
            "npu: 2,304 ms predicted, cpu 3,392 ms: 1,024 tokens to prefill, 32 to generate");
  EXPECT_EQ(d.reason_code, ReasonCode::kFastest);
  EXPECT_EQ(d.id, "r7");
  EXPECT_EQ(d.policy, "extended");
  const Candidate& cpu = d.candidates[0];
  EXPECT_EQ(cpu.workload, MakeWorkload(1024, 32, 0));
  EXPECT_EQ(cpu.prediction.prefill_ms, 3072);
  EXPECT_EQ(cpu.prediction.decode_ms, 320);
  EXPECT_EQ(cpu.total_ms, 3392);
  EXPECT_EQ(cpu.ttft_ms, 3082);
  EXPECT_EQ(cpu.score_ms, 3392);
  EXPECT_EQ(cpu.need_tokens, 1056);
  EXPECT_EQ(cpu.have_tokens, 8192);
}

TEST(Decide, CountsWhatIsCachedPerBackend) {
  Fleet fleet = CpuAndNpu();
  const std::vector<Symbol> prompt = Tokens(1024);
  fleet.index.Insert(0, SymbolSpan(prompt).first(1000), 1000);
  const Decision d = fleet.Route({.id = "r", .model = "m", .max_new_tokens = 32}, prompt);
  EXPECT_EQ(Chosen(d), "cpu");
  EXPECT_EQ(d.candidates[0].workload, MakeWorkload(1024, 32, 1000));
  EXPECT_EQ(d.candidates[0].predicted_reuse, 1000);
  EXPECT_EQ(d.candidates[1].workload, MakeWorkload(1024, 32, 0));
  EXPECT_EQ(d.reason,
            "cpu: 392 ms predicted, npu 2,304 ms: 24 tokens to prefill (1,000 of 1,024 cached), 32 "
            "to generate");
  // An exact hit: p_cache is p, and the backend reports one token less.
  fleet.index.Insert(0, prompt, 1024);
  const Decision exact = fleet.Route({.id = "r", .model = "m", .max_new_tokens = 32}, prompt);
  EXPECT_EQ(exact.candidates[0].workload.cache, CacheState::kExact);
  EXPECT_EQ(exact.candidates[0].predicted_reuse, 1023);
}

TEST(Decide, TurnsBlocksIntoTokens) {
  Fleet fleet = CpuAndNpu();
  const std::vector<Symbol> blocks = Tokens(50);
  fleet.index.Insert(0, SymbolSpan(blocks).first(20), 20);
  const BackendPrompt prompt{.tokens = 777, .symbols = blocks, .estimated = true, .bytes = 3200};
  const Decision d = fleet.Route({.id = "r", .model = "m", .max_new_tokens = 8}, prompt);
  EXPECT_EQ(d.candidates[0].workload.cached_tokens, 310);  // floor(777 * 20 / 50)
  EXPECT_TRUE(d.candidates[0].estimated_tokens);
  fleet.index.Insert(0, blocks, 50);
  EXPECT_EQ(fleet.Route({.id = "r", .model = "m", .max_new_tokens = 8}, prompt)
                .candidates[0]
                .workload.cached_tokens,
            777);
}

TEST(Decide, AddsTheWait) {
  Fleet fleet = CpuAndNpu();
  fleet["npu"].running = {{.prefill_ms = 500, .decode_ms = 1000}};
  const Decision d = fleet.Route(1024, 32);
  EXPECT_EQ(d.candidates[1].queue_ms, 1500);
  EXPECT_EQ(d.candidates[1].total_ms, 3804);
  EXPECT_EQ(Chosen(d), "cpu");
  // Loading counts as waiting; what is loaded meanwhile is not excluded.
  fleet["npu"].running.clear();
  fleet["npu"].availability = Availability::kLoading;
  fleet["npu"].ready_in_ms = 1000;
  const Decision loading = fleet.Route(1024, 32);
  EXPECT_EQ(Chosen(loading), "npu");
  EXPECT_EQ(loading.candidates[1].total_ms, 3304);
  EXPECT_EQ(
      loading.reason,
      "npu: 3,304 ms predicted, 1,000 ms of it waiting, cpu 3,392 ms: 1,024 tokens to prefill, "
      "32 to generate");
}

TEST(Decide, NeighboursInSharedSlotsSlowItDown) {
  Fleet fleet;
  BackendSnapshot& a = fleet.Add("a", Rates(1, 10));
  a.slots = 4;
  a.sharing = 1;
  a.running = {{.decode_ms = 300}, {.decode_ms = 5000}};
  const Decision d = fleet.Route(1000, 10);
  // T = 1100: min(300, T) + min(5000, T); to the first token 1010.
  EXPECT_EQ(d.candidates[0].queue_ms, 0);
  EXPECT_EQ(d.candidates[0].sharing_ms, 1400);
  EXPECT_EQ(d.candidates[0].total_ms, 2500);
  EXPECT_EQ(d.candidates[0].ttft_ms, 1010 + 300 + 1010);
}

TEST(Decide, ExcludesWithReasons) {
  Fleet fleet;
  for (const char* name : {"other", "down", "open", "draining", "small", "full", "ok"}) {
    fleet.Add(name, Rates(1, 1));
  }
  fleet["other"].models = {"x"};
  fleet["down"].availability = Availability::kDown;
  fleet["open"].availability = Availability::kBreakerOpen;
  fleet["draining"].availability = Availability::kDraining;
  fleet["small"].context_tokens = 100;
  fleet["full"].queue_limit = 1;
  fleet["full"].running = {{.decode_ms = 5}};
  fleet["full"].queued = {{.decode_ms = 5}};
  const Decision d = fleet.Route(100, 10);
  EXPECT_EQ(Chosen(d), "ok");
  EXPECT_EQ(d.reason_code, ReasonCode::kOnlyCandidate);
  const Exclusion expected[] = {Exclusion::kModel,    Exclusion::kDown,    Exclusion::kBreakerOpen,
                                Exclusion::kDraining, Exclusion::kContext, Exclusion::kQueueFull,
                                Exclusion::kNone};
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(d.candidates[i].exclusion, expected[i]) << i;
  EXPECT_EQ(d.candidates[4].need_tokens, 110);
  EXPECT_EQ(d.candidates[4].have_tokens, 100);
  EXPECT_EQ(d.candidates[5].queued, 1);
  EXPECT_EQ(d.candidates[5].queue_limit, 1);
}

TEST(Decide, AFullQueueMattersOnlyToWhoWouldWait) {
  Fleet fleet;
  BackendSnapshot& a = fleet.Add("a", Rates(1, 1));
  a.queue_limit = 0;
  EXPECT_EQ(Chosen(fleet.Route(10, 10)), "a");
  fleet["a"].running = {{.decode_ms = 2500}};
  const Decision d = fleet.Route(10, 10);
  EXPECT_EQ(Chosen(d), "(queue-full)");
  EXPECT_EQ(d.retry_after_s, 3);
  EXPECT_EQ(d.reason, "no queue has room, try again in 3 s: a has 0 of 0 waiting");
}

TEST(Decide, StatusNamesTheMostUsefulCause) {
  Fleet fleet = CpuAndNpu();
  EXPECT_EQ(Chosen(fleet.Route({.id = "r", .model = "z", .max_new_tokens = 1},
                               BackendPrompt{.tokens = 5})),
            "(unknown-model)");
  // The prompt fits the CPU, which is down: not the client's fault.
  fleet["cpu"].availability = Availability::kDown;
  Decision d = fleet.Route(5000, 10);
  EXPECT_EQ(Chosen(d), "(unavailable)");
  EXPECT_EQ(d.reason, "no backend can take it now: cpu down, npu holds 4,096 tokens");
  EXPECT_EQ(d.n_ctx, 0);
  // It fits none, whatever is down.
  d = fleet.Route(9000, 10);
  EXPECT_EQ(Chosen(d), "(context-overflow)");
  EXPECT_EQ(d.n_prompt_tokens, 9000);
  EXPECT_EQ(d.n_ctx, 8192);
  EXPECT_EQ(d.reason, "the prompt has 9,000 tokens, the largest context holds 8,192");
  // Nothing is there at all.
  Fleet empty;
  EXPECT_EQ(Chosen(empty.Route(5, 5)), "(unknown-model)");
}

TEST(Decide, PinnedMeansPinned) {
  Fleet fleet = CpuAndNpu();
  const RouteRequest pinned{.id = "r", .model = "m", .max_new_tokens = 32, .pinned = "cpu"};
  const Decision d = fleet.Route(pinned, BackendPrompt{.tokens = 1024});
  EXPECT_EQ(Chosen(d), "cpu");
  EXPECT_EQ(d.reason_code, ReasonCode::kPinnedBackend);
  EXPECT_EQ(d.candidates[1].exclusion, Exclusion::kPinned);
  fleet["cpu"].availability = Availability::kDown;
  EXPECT_EQ(Chosen(fleet.Route(pinned, BackendPrompt{.tokens = 1024})), "(unavailable)");
  // The pinned backend's context is the one that counts.
  fleet["cpu"].availability = Availability::kReady;
  const RouteRequest npu{.id = "r", .model = "m", .max_new_tokens = 32, .pinned = "npu"};
  EXPECT_EQ(Chosen(fleet.Route(npu, BackendPrompt{.tokens = 5000})), "(context-overflow)");
}

TEST(ContextFit, FollowsLlamaServer) {
  // Measured: p = 4080, g = 64, n_ctx = 4096 gives 16 tokens and truncated; p >= n_ctx gives 400.
  EXPECT_EQ(FitContext(4080, 64, 4096).verdict, ContextVerdict::kTruncates);
  EXPECT_EQ(FitContext(4080, 64, 4096).max_new_tokens, 16);
  EXPECT_EQ(FitContext(4080, 16, 4096).verdict, ContextVerdict::kFits);
  EXPECT_EQ(FitContext(4096, 0, 4096).verdict, ContextVerdict::kOverflow);
  EXPECT_EQ(FitContext(4097, 5, 4096).verdict, ContextVerdict::kOverflow);
  EXPECT_EQ(FitContext(1 << 30, 1 << 30, 0).verdict, ContextVerdict::kFits);
  EXPECT_EQ(FitContext(10, INT64_MAX, 100).max_new_tokens, 90);
}

TEST(Decide, CutsAnswersShortOnlyWhereNobodyHoldsThemOrNobodyAsked) {
  Fleet fleet = CpuAndNpu();
  // 4000 + 200 on 4096: the NPU is faster but would cut it short.
  Decision d = fleet.Route(4000, 200);
  EXPECT_EQ(Chosen(d), "cpu");
  EXPECT_EQ(d.candidates[1].exclusion, Exclusion::kTruncates);
  // The CPU is gone: better short than not at all.
  fleet["cpu"].availability = Availability::kDown;
  d = fleet.Route(4000, 200);
  EXPECT_EQ(Chosen(d), "npu");
  EXPECT_EQ(d.candidates[1].context, ContextVerdict::kTruncates);
  EXPECT_EQ(d.candidates[1].workload.max_new_tokens, 96);
  EXPECT_NE(d.reason.find("cuts the answer short"), std::string::npos);
  // g is only a default: the NPU competes, with what it can generate.
  fleet["cpu"].availability = Availability::kReady;
  d = fleet.Route({.id = "r", .model = "m", .max_new_tokens = 200, .max_new_given = false},
                  BackendPrompt{.tokens = 4000});
  EXPECT_EQ(Chosen(d), "npu");
  EXPECT_EQ(d.candidates[1].workload.max_new_tokens, 96);
}

TEST(Decide, AWantedContextIsAWish) {
  Fleet fleet = CpuAndNpu();  // 8192 and 4096
  const auto wanting = [&](int64_t context) {
    return fleet.Route({.id = "r", .model = "m", .max_new_tokens = 16, .wanted_context = context},
                       BackendPrompt{.tokens = 2048});
  };
  // The NPU is faster, but a client that wants 8192 gets it where it is.
  EXPECT_EQ(Chosen(wanting(0)), "npu");
  EXPECT_EQ(Chosen(wanting(4096)), "npu");
  Decision d = wanting(8192);
  EXPECT_EQ(Chosen(d), "cpu");
  EXPECT_EQ(d.candidates[1].exclusion, Exclusion::kSmallContext);
  // Where it is nowhere, or down, the prompt that fits is answered all the same.
  d = wanting(16384);
  EXPECT_EQ(Chosen(d), "npu");
  EXPECT_NE(d.reason.find("no context of 16,384 tokens is there"), std::string::npos) << d.reason;
  fleet["cpu"].availability = Availability::kDown;
  EXPECT_EQ(Chosen(wanting(8192)), "npu");
  // An unknown context may hold anything.
  fleet["cpu"].availability = Availability::kReady;
  fleet["cpu"].context_tokens = 0;
  EXPECT_EQ(Chosen(wanting(16384)), "cpu");
}

TEST(Decide, ChoicesAreDecodedSideBySideOnTheSlotsThereAre) {
  Fleet fleet = CpuAndNpu();
  const auto total = [&](int slots, double sharing, int choices) {
    fleet["cpu"].slots = slots;
    fleet["cpu"].sharing = sharing;
    const Decision d =
        fleet.Route({.id = "r", .model = "m", .max_new_tokens = 100, .choices = choices},
                    BackendPrompt{.tokens = 512});
    return d.candidates[0].prediction;
  };
  const Prediction one = total(4, 1, 1);
  const auto same = [&](const Prediction& many, double decodes) {
    EXPECT_DOUBLE_EQ(many.prefill_ms, one.prefill_ms);
    EXPECT_DOUBLE_EQ(many.ttft_ms, one.ttft_ms);
    EXPECT_NEAR(many.decode_ms, decodes * one.decode_ms, 1e-9 * one.decode_ms);
    EXPECT_NEAR(many.total_ms, one.prefill_ms + decodes * one.decode_ms, 1e-9 * one.total_ms);
  };
  same(total(4, 0, 4), 1);    // independent slots
  same(total(4, 1, 4), 4);    // one processor shared evenly
  same(total(4, 0.5, 3), 2);  // 1 + 0.5 * 2
  same(total(1, 1, 3), 3);    // one after another
  same(total(2, 0, 3), 2);    // two waves
}

TEST(Decide, ADeadlineTurnsAwayOnlyOnMeasurements) {
  Fleet fleet = CpuAndNpu();
  const auto within = [&](double ms) {
    return fleet.Route({.id = "r", .model = "m", .max_new_tokens = 32, .deadline_ms = ms},
                       BackendPrompt{.tokens = 1024});
  };
  EXPECT_EQ(Chosen(within(3000)), "npu");
  EXPECT_EQ(within(3000).candidates[0].exclusion, Exclusion::kDeadline);
  const Decision d = within(2000);
  EXPECT_EQ(Chosen(d), "(deadline)");
  EXPECT_EQ(d.best_total_ms, 2304);
  EXPECT_EQ(d.reason,
            "no backend is predicted to answer within 2,000 ms: cpu 3,392 ms, npu 2,304 ms");
  fleet.models.backends[1].extended = PriorModel(BackendKind::kRkllm);
  EXPECT_EQ(Chosen(within(2000)), "npu");
}

TEST(Decide, TiesGoToTheLeastLoadedThenTheLeastRecent) {
  Fleet fleet;
  fleet.Add("a", Rates(1, 1)).slots = 4;
  fleet.Add("b", Rates(1.005, 1)).slots = 4;
  fleet.Add("c", Rates(1.5, 1)).slots = 4;
  EXPECT_EQ(Chosen(fleet.Route(1000, 10)), "a");
  Decision d = fleet.Route(1000, 10);
  EXPECT_EQ(Chosen(d), "b");  // half a percent slower, not used yet
  EXPECT_EQ(d.reason_code, ReasonCode::kTieLeastRecent);
  EXPECT_EQ(Chosen(fleet.Route(1000, 10)), "a");
  // Load decides first.
  fleet["b"].sharing = fleet["a"].sharing = 0;
  fleet["b"].running = {{.decode_ms = 1}};
  EXPECT_EQ(Chosen(fleet.Route(1000, 10)), "a");
  d = fleet.Route(1000, 10);
  EXPECT_EQ(Chosen(d), "a");
  EXPECT_EQ(d.reason_code, ReasonCode::kTieLeastLoaded);
  // A prior never ties with a measurement.
  fleet["b"].running.clear();
  fleet.models.backends[1].extended.source = ModelSource::kPrior;
  fleet.policy.explore_every = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Chosen(fleet.Route(1000, 10)), "a");
}

TEST(Decide, IsTheSameForTheSameArguments) {
  Fleet fleet = CpuAndNpu();
  const TieState ties = fleet.ties;
  const Decision first = fleet.Route(500, 40);
  fleet.ties = ties;
  EXPECT_EQ(fleet.Route(500, 40), first);
}

// One backend was measured and is fast; the other's prior is slow, so that it would never be tried.
TEST(Decide, TriesUnmeasuredBackendsNowAndThen) {
  Fleet fleet;
  fleet.Add("known", Rates(1, 1));
  fleet.Add("new", PriorModel(BackendKind::kOpenAi), {});
  std::map<std::string, int> count;
  for (int i = 0; i < 80; ++i) ++count[Chosen(fleet.Route(100, 10))];
  EXPECT_EQ(count["new"], 20);  // each fourth
  // Not at the cost of a cached prefix, a deadline or a queue.
  const std::vector<Symbol> prompt = Tokens(100);
  fleet.index.Insert(0, prompt, 100);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Chosen(fleet.Route({.id = "r", .model = "m", .max_new_tokens = 10}, prompt)),
              "known");
    EXPECT_EQ(
        Chosen(fleet.Route({.id = "r", .model = "m", .max_new_tokens = 10, .deadline_ms = 1e6},
                           BackendPrompt{.tokens = 100})),
        "known");
  }
  fleet["new"].running = {{.decode_ms = 1}};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Chosen(fleet.Route(100, 10)), "known");
  fleet["new"].running.clear();
  fleet.policy.explore_every = 0;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Chosen(fleet.Route(100, 10)), "known");
}

TEST(Decide, TakesMissingModelsAndPromptsAsUnknown) {
  Fleet fleet = CpuAndNpu();
  fleet.models.backends.clear();
  RouteRequest request{.id = "r", .model = "m", .max_new_tokens = 10};
  const Decision d =
      Decide(request, fleet.snapshot, fleet.index, fleet.models, fleet.policy, fleet.ties);
  EXPECT_EQ(d.status, DecisionStatus::kRouted);
  EXPECT_EQ(d.candidates[0].workload.prompt_tokens, 0);
  EXPECT_EQ(d.candidates[0].prediction.source, ModelSource::kPrior);
}

TEST(TimeoutMs, IsKTimesThePrediction) {
  Candidate c;
  c.total_ms = 100'000;
  c.prediction.source = ModelSource::kFitted;
  EXPECT_EQ(TimeoutMs(c), 300'000);
  c.prediction.outside = kOutsidePrompt;
  EXPECT_EQ(TimeoutMs(c), 1'000'000);
  c.total_ms = 5;
  EXPECT_EQ(TimeoutMs(c), 30'000);
}

}  // namespace
}  // namespace parallax::router
