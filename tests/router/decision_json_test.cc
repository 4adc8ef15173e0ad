#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "router/decision.h"
#include "tests/router/fixtures.h"

namespace parallax::router {
namespace {

using fixtures::Fleet;
using fixtures::Rates;
using fixtures::Tokens;

Decision Example() {
  Fleet fleet;
  fleet.Add("cpu", Rates(3, 10, 0.1)).context_tokens = 8192;
  fleet.Add("npu", PriorModel(BackendKind::kRkllm)).context_tokens = 700;
  const std::vector<Symbol> prompt = Tokens(777);
  fleet.index.Insert(0, SymbolSpan(prompt).first(333), 333);
  Decision d = fleet.Route({.id = "r\"1\"", .model = "m", .max_new_tokens = 32, .no_cache = false},
                           BackendPrompt{.tokens = 777, .symbols = prompt, .estimated = true});
  d.time_ms = 12.5;
  d.outcome.finished = true;
  d.outcome.ttft_ms = 1.0 / 3;
  d.outcome.total_ms = 812;
  d.outcome.cached_tokens = 332;
  d.outcome.finish = "stop";
  return d;
}

TEST(DecisionJson, ReadsBackWhatItWrites) {
  const Decision d = Example();
  const Result<Decision> back = FromJson(ToJson(d));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, d);
  EXPECT_EQ(ToJson(*back), ToJson(d));
  EXPECT_EQ(back->deadline_ms, std::numeric_limits<double>::infinity());

  Decision other = d;
  other.deadline_ms = 1000;
  other.notes = kNoteBetweenRows | kNoteOtherSide;
  other.chosen.reset();
  other.status = DecisionStatus::kQueueFull;
  other.retry_after_s = 3;
  other.outcome = {};
  other.candidates[0].prediction.outside = kOutsidePrompt | kOutsideCached;
  EXPECT_EQ(*FromJson(ToJson(other)), other);
  EXPECT_EQ(*FromJson(ToJson(Decision{})), Decision{});
}

// Others read this: keys, their order and one value of each kind.
TEST(DecisionJson, HasStableKeys) {
  const std::string text = ToJson(Example());
  EXPECT_EQ(text.find('\n'), std::string::npos);
  size_t at = 0;
  for (const char* key : {R"({"id":"r\"1\"")",
                          R"("time_ms":12.5)",
                          R"("model":"m")",
                          R"("kind":"chat")",
                          R"("max_new_tokens":32)",
                          R"("max_new_given":true)",
                          R"("choices":1)",
                          R"("wanted_context":0)",
                          R"("deadline_ms":null)",
                          R"("no_cache":false)",
                          R"("pinned":"")",
                          R"("policy":"extended")",
                          R"("objective":"total")",
                          R"("notes":[])",
                          R"("status":"routed")",
                          R"("chosen":"cpu")",
                          R"("reason_code":"only-candidate")",
                          R"("reason":"cpu: )",
                          R"("candidates":[{"name":"cpu")",
                          R"("exclusion":"none")",
                          R"("need_tokens":809)",
                          R"("have_tokens":8192)",
                          R"("context":"fits")",
                          R"("estimated_tokens":true)",
                          R"("short_match_ignored":false)",
                          R"("running":0)",
                          R"("queued":0)",
                          R"("queue_limit":)",
                          R"("p":777)",
                          R"("g":32)",
                          R"("p_cache":333)",
                          R"("p_eff":444)",
                          R"("cache_state":"prefix")",
                          R"("attention_work":)",
                          R"("decode_work":)",
                          R"("predicted_reuse":333)",
                          R"("queue_ms":0.0)",
                          R"("sharing_ms":0.0)",
                          R"("prefill_ms":1332.1)",
                          R"("decode_ms":)",
                          R"("model_total_ms":)",
                          R"("model_raw_total_ms":)",
                          R"("model_ttft_ms":)",
                          R"("model_form":"extended")",
                          R"("model_source":"fitted")",
                          R"("outside":[])",
                          R"("total_ms":)",
                          R"("ttft_ms":)",
                          R"("score_ms":)",
                          R"("name":"npu")",
                          R"("exclusion":"context")",
                          R"("n_prompt_tokens":0)",
                          R"("n_ctx":0)",
                          R"("retry_after_s":0)",
                          R"("best_total_ms":0.0)",
                          R"("outcome":{"finished":true)",
                          R"("queue_ms":null)",
                          R"("ttft_ms":0.333)",
                          R"("prefill_ms":null)",
                          R"("decode_ms":null)",
                          R"("total_ms":812.0)",
                          R"("prompt_tokens":null)",
                          R"("cached_tokens":332)",
                          R"("generated_tokens":null)",
                          R"("finish":"stop")",
                          R"("error":""})"}) {
    const size_t found = text.find(key, at);
    ASSERT_NE(found, std::string::npos) << key << " after " << text.substr(at, 80);
    at = found;
  }
}

TEST(DecisionJson, NewerFilesAndBareRecordsCanBeRead) {
  const Result<Decision> d = FromJson(
      R"({"id": "x", "future": [1, {"a": 2}], "notes": ["new-note", "other-side"],
          "candidates": [{"name": "a", "p": 5, "p_cache": 9, "colour": "red"}], "chosen": "a"})");
  ASSERT_TRUE(d.ok()) << d.error().message();
  EXPECT_EQ(d->notes, uint32_t{kNoteOtherSide});
  EXPECT_EQ(d->candidates[0].workload, MakeWorkload(5, 0, 5));
  EXPECT_EQ(d->chosen, 0u);
}

TEST(DecisionJson, HostileInputGivesErrorsThatNameTheKey) {
  const auto message = [](const std::string& text) {
    const Result<Decision> d = FromJson(text);
    return d.ok() ? std::string() : d.error().message();
  };
  EXPECT_EQ(message(""), "not JSON (0 bytes)");
  EXPECT_EQ(message("3"), "decision: document: an object is wanted, found number");
  EXPECT_EQ(message("{}"), "decision: id: missing");
  EXPECT_EQ(message(R"({"id": 3})"), "decision: id: a string is wanted, found number");
  EXPECT_EQ(message(R"({"id": "x", "candidates": {}})"),
            "decision: candidates: an array is wanted, found object");
  EXPECT_EQ(message(R"({"id": "x", "candidates": [{"name": "a", "p": -1}]})"),
            "decision: candidates[0].p: an integer from 0 to 281474976710656 is wanted, found -1");
  EXPECT_EQ(
      message(R"({"id": "x", "candidates": [{"name": "a", "g": 1e30}]})"),
      "decision: candidates[0].g: an integer from 0 to 281474976710656 is wanted, found 1e+30");
  EXPECT_EQ(message(R"({"id": "x", "max_new_tokens": 18446744073709551615})"),
            "decision: max_new_tokens: an integer from 0 to 281474976710656 is wanted, found "
            "18446744073709551615");
  EXPECT_EQ(message(R"({"id": "x", "chosen": "nobody"})"),
            "decision: chosen: names none of the candidates");
  EXPECT_EQ(message(R"({"id": "x", "status": "fine"})"),
            "decision: status: one of routed, unknown-model, unavailable, context-overflow, "
            "queue-full, deadline is wanted");
  EXPECT_EQ(message(R"({"id": "x", "outcome": []})"),
            "decision: outcome: an object is wanted, found array");
  EXPECT_EQ(
      message(R"({"id": "x", "outcome": {"total_ms": "now"}})"),
      "decision: outcome.total_ms: a number from 0 to 1000000000000000 is wanted, found string");
  EXPECT_NE(message(std::string(200'000, '[')), "");
  EXPECT_NE(message(R"({"id": "x", "time_ms": 1e999})"), "");
}

TEST(DecisionJson, DamagedRecordsNeverCrash) {
  const std::string good = ToJson(Example());
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % bad.size();
      switch (random() % 3) {
        case 0:
          bad[at] = static_cast<char>(random());
          break;
        case 1:
          bad.erase(at, random() % 20);
          break;
        default:
          bad.insert(at, 1, "{}[],:\"0-eE.n"[random() % 13]);
      }
    }
    const Result<Decision> d = FromJson(bad);
    if (!d.ok()) continue;
    ++accepted;
    EXPECT_EQ(*FromJson(ToJson(*d)), *d);
  }
  EXPECT_GT(accepted, 100);
}

// Names come from clients.
TEST(DecisionJson, InvalidUtf8IsReplaced) {
  Decision d = Example();
  d.model = "\xFF\xFE";
  const Result<Decision> back = FromJson(ToJson(d));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->model, "\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace parallax::router
