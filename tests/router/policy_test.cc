// The policies against the paper's tables.
#include "router/policy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/router/fixtures.h"

namespace parallax::router {
namespace {

using fixtures::Chosen;
using fixtures::Fleet;
using fixtures::PaperFleet;
using fixtures::Tokens;

constexpr int64_t kPrompts[] = {128, 256, 512, 768, 1024, 1536, 2048, 3072};  // calibration grid
constexpr int64_t kBudgets[] = {32, 64, 128, 192, 256, 384, 512};

// Table 1.
std::string Table1(int64_t p, int64_t g) {
  const int64_t threshold = g == 32    ? 256
                            : g == 64  ? 512
                            : g == 128 ? 1536
                            : g == 192 ? 2048
                                       : kNever;
  return p >= threshold ? "npu" : "cpu";
}

TEST(Psr, IsTable1) {
  Fleet fleet = PaperFleet("psr");
  for (int64_t g : kBudgets) {
    for (int64_t p : kPrompts) {
      const Decision d = fleet.Route(p, g);
      EXPECT_EQ(Chosen(d), Table1(p, g)) << p << " " << g;
      EXPECT_EQ(d.notes, 0u);
      EXPECT_EQ(d.reason_code, ReasonCode::kRule);
    }
    // Prompts between the calibrated ones: the threshold itself decides.
    for (int64_t p : {255, 257, 511, 1535, 1537, 2047, 2049}) {
      EXPECT_EQ(Chosen(fleet.Route(p, g)), Table1(p, g)) << p << " " << g;
    }
  }
}

TEST(Psr, BudgetsBetweenRowsTakeTheNextAndSaySo) {
  Fleet fleet = PaperFleet("psr");
  EXPECT_EQ(Chosen(fleet.Route(300, 33)), "cpu");  // g = 64: 512
  EXPECT_EQ(Chosen(fleet.Route(600, 33)), "npu");
  EXPECT_EQ(fleet.Route(600, 33).notes, uint32_t{kNoteBetweenRows});
  EXPECT_EQ(Chosen(fleet.Route(256, 1)), "npu");  // below the first: g = 32
  EXPECT_EQ(fleet.Route(256, 1).notes, uint32_t{kNoteBetweenRows});
  EXPECT_EQ(Chosen(fleet.Route(3072, 600)), "cpu");  // past the last
  EXPECT_EQ(fleet.Route(3072, 600).notes, uint32_t{kNotePastLastRow});
}

TEST(Psr, InterpolatesOnRequest) {
  Fleet fleet = PaperFleet("psr");
  fleet.policy.interpolation = Interpolation::kLinear;
  // Half way between 32 and 64: 384.
  EXPECT_EQ(Chosen(fleet.Route(383, 48)), "cpu");
  EXPECT_EQ(Chosen(fleet.Route(384, 48)), "npu");
  EXPECT_EQ(fleet.Route(384, 48).notes, uint32_t{kNoteInterpolated});
  // Between 2048 and never there is no line.
  EXPECT_EQ(Chosen(fleet.Route(3000, 200)), "cpu");
  EXPECT_EQ(fleet.Route(3000, 200).notes, uint32_t{kNoteBetweenRows});
  EXPECT_EQ(fleet.Route(3000, 192).notes, 0u);
  // Below the first row as without.
  EXPECT_EQ(Chosen(fleet.Route(255, 8)), "cpu");
}

TEST(PsrTable, LooksUpEveryPlace) {
  const PsrTable t{
      .long_side = "a", .short_side = "b", .rows = {{10, 100}, {20, 300}, {40, kNever}}};
  const auto at = [&](int64_t g, Interpolation i) { return Lookup(t, g, i).threshold; };
  EXPECT_EQ(at(5, Interpolation::kLinear), 100);
  EXPECT_EQ(at(10, Interpolation::kLinear), 100);
  EXPECT_EQ(at(12, Interpolation::kLinear), 140);
  EXPECT_EQ(at(12, Interpolation::kNextRow), 300);
  EXPECT_EQ(at(30, Interpolation::kLinear), kNever);
  EXPECT_EQ(at(41, Interpolation::kNextRow), kNever);
  EXPECT_EQ(Lookup(t, 41, Interpolation::kLinear).place, PsrPlace::kPastLast);
  EXPECT_EQ(Lookup(t, 20, Interpolation::kLinear).place, PsrPlace::kRow);
}

// Section 4.3: the threshold is 3072 and every held-out prompt stays on the CPU.
TEST(PromptOnly, IsTheCpuForEveryHeldOutPrompt) {
  Fleet fleet = PaperFleet("prompt-only");
  for (int64_t p : {192, 384, 640, 896, 1280, 1792, 2560}) {
    for (int64_t g : kBudgets) EXPECT_EQ(Chosen(fleet.Route(p, g)), "cpu");
  }
  EXPECT_EQ(Chosen(fleet.Route(3072, 512)), "npu");
}

TEST(Only, NobodyElseGetsItsRequests) {
  Fleet fleet = PaperFleet("npu-only");
  EXPECT_EQ(Name(fleet.policy), "only:npu");
  const Decision d = fleet.Route(128, 512);
  EXPECT_EQ(Chosen(d), "npu");
  EXPECT_EQ(d.candidates[0].exclusion, Exclusion::kPolicy);
  fleet["npu"].availability = Availability::kDown;
  EXPECT_EQ(Chosen(fleet.Route(128, 512)), "(unavailable)");
}

// Table 3's coefficients without a cache: NPU - CPU = -372.27 - 13.44 p + 89.97 g + 0.019 p g < 0.
// The smallest calibrated prompt where the NPU is faster is table 1's threshold but for g = 128
// (1024, not 1536) and g = 256 (3072, not never).
TEST(Pcar, Table3GivesTable1ButForTwoRows) {
  Fleet fleet = PaperFleet("pcar");
  const std::vector<std::pair<int64_t, int64_t>> thresholds = {
      {32, 256}, {64, 512}, {128, 1024}, {192, 2048}, {256, 3072}, {384, kNever}, {512, kNever}};
  for (const auto& [g, threshold] : thresholds) {
    for (int64_t p : kPrompts) {
      const std::vector<Symbol> prompt = Tokens(static_cast<size_t>(p));
      const Decision d = fleet.Route({.id = "r", .model = "m", .max_new_tokens = g}, prompt);
      EXPECT_EQ(Chosen(d), p >= threshold ? "npu" : "cpu") << p << " " << g;
      EXPECT_EQ(d.notes, 0u);
      const double pd = static_cast<double>(p), gd = static_cast<double>(g);
      EXPECT_NEAR(d.candidates[1].score_ms - d.candidates[0].score_ms,
                  -372.27 - 13.44 * pd + 89.97 * gd + 0.019 * pd * gd, 1e-6);
    }
  }
}

// Section 4.4.3: the oracle takes the NPU for 6 of the 45 held-out workloads, PCAR for 4.
TEST(Pcar, TakesTheNpuForFourOfThePapersHeldOutWorkloads) {
  Fleet fleet = PaperFleet("pcar");
  int npu = 0;
  for (int64_t p : {896, 1280, 2560}) {
    for (int64_t g : {128, 192, 384}) {
      for (int quarter = 0; quarter <= 4; ++quarter) {
        const std::vector<Symbol> prompt = Tokens(static_cast<size_t>(p));
        for (BackendId b : {0, 1}) {
          fleet.index.Clear(b);
          fleet.index.Insert(b, SymbolSpan(prompt).first(prompt.size() * quarter / 4), 1);
        }
        const Decision d = fleet.Route({.id = "r", .model = "m", .max_new_tokens = g}, prompt);
        EXPECT_EQ(d.candidates[0].workload.cached_tokens, p * quarter / 4);
        npu += Chosen(d) == "npu";
      }
    }
  }
  EXPECT_EQ(npu, 4);
}

TEST(Pcar, WithoutCacheMetadataItIsPsr) {
  Fleet fleet = PaperFleet("pcar");
  // At p = 1024, g = 128 the two differ.
  const Decision known =
      fleet.Route({.id = "r", .model = "m", .max_new_tokens = 128}, Tokens(1024));
  EXPECT_EQ(Chosen(known), "npu");
  const Decision unknown = fleet.Route(1024, 128);
  EXPECT_EQ(Chosen(unknown), "cpu");
  EXPECT_EQ(unknown.notes, uint32_t{kNoteFellBackToPsr});
  EXPECT_EQ(unknown.reason_code, ReasonCode::kRule);
  fleet["npu"].cache_reporting = false;
  EXPECT_EQ(fleet.Route({.id = "r", .model = "m", .max_new_tokens = 128}, Tokens(1024)).notes,
            uint32_t{kNoteFellBackToPsr});
  // no-cache is metadata enough: p_cache is 0.
  const Decision none =
      fleet.Route({.id = "r", .model = "m", .max_new_tokens = 128, .no_cache = true}, Tokens(1024));
  EXPECT_EQ(Chosen(none), "npu");
  EXPECT_EQ(none.notes, 0u);
}

TEST(Pcar, NoCacheForcesNothingCached) {
  Fleet fleet = PaperFleet("pcar");
  const std::vector<Symbol> prompt = Tokens(2048);
  fleet.index.Insert(0, prompt, prompt.size());
  EXPECT_EQ(Chosen(fleet.Route({.id = "r", .model = "m", .max_new_tokens = 64}, prompt)), "cpu");
  const Decision d =
      fleet.Route({.id = "r", .model = "m", .max_new_tokens = 64, .no_cache = true}, prompt);
  EXPECT_EQ(Chosen(d), "npu");
  EXPECT_EQ(d.candidates[0].workload, MakeWorkload(2048, 64, 0));
}

TEST(PsrEff, AsksTheTableWithWhatRemains) {
  Fleet fleet = PaperFleet("psr-eff");
  const std::vector<Symbol> prompt = Tokens(2048);
  const RouteRequest request{.id = "r", .model = "m", .max_new_tokens = 192};
  EXPECT_EQ(Chosen(fleet.Route(request, prompt)), "npu");
  // Cached on both, as in the paper: 1024 remain, below 2048.
  for (BackendId b : {0, 1}) fleet.index.Insert(b, SymbolSpan(prompt).first(1024), 1024);
  EXPECT_EQ(Chosen(fleet.Route(request, prompt)), "cpu");
  Fleet raw = PaperFleet("psr");
  for (BackendId b : {0, 1}) raw.index.Insert(b, SymbolSpan(prompt).first(1024), 1024);
  EXPECT_EQ(Chosen(raw.Route(request, prompt)), "npu");
  // Cached on the NPU only: the CPU would have to prefill all of it.
  fleet.index.Clear(0);
  EXPECT_EQ(Chosen(fleet.Route(request, prompt)), "npu");
  // Cached on the CPU only.
  fleet.index.Clear(1);
  fleet.index.Insert(0, SymbolSpan(prompt).first(1024), 1024);
  EXPECT_EQ(Chosen(fleet.Route(request, prompt)), "cpu");
}

TEST(Rules, TheOtherSideTakesWhatTheFirstCannot) {
  Fleet fleet = PaperFleet("psr");
  fleet["npu"].availability = Availability::kDown;
  Decision d = fleet.Route(1024, 32);
  EXPECT_EQ(Chosen(d), "cpu");
  EXPECT_EQ(d.notes, uint32_t{kNoteOtherSide});
  EXPECT_EQ(d.reason_code, ReasonCode::kOnlyCandidate);
  // A third backend comes after both sides.
  fleet["npu"].availability = Availability::kReady;
  fleet.Add("third", fixtures::Rates(0.001, 0.001));
  EXPECT_EQ(Chosen(fleet.Route(1024, 32)), "npu");
  fleet["npu"].availability = Availability::kDown;
  d = fleet.Route(1024, 32);
  EXPECT_EQ(Chosen(d), "cpu");
  EXPECT_EQ(d.reason_code, ReasonCode::kRuleFallback);
  fleet["cpu"].availability = Availability::kDown;
  EXPECT_EQ(Chosen(fleet.Route(1024, 32)), "third");
}

TEST(Rules, WithoutTheirTablesModelsDecide) {
  for (const char* policy : {"psr", "psr-eff", "prompt-only", "pcar"}) {
    Fleet fleet;
    fleet.policy = *ParsePolicy(policy);
    fleet.Add("slow", fixtures::Rates(10, 100));
    fleet.Add("fast", fixtures::Rates(1, 10));
    const Decision d = fleet.Route({.id = "r", .model = "m", .max_new_tokens = 10}, Tokens(100));
    EXPECT_EQ(Chosen(d), "fast") << policy;
    EXPECT_EQ(d.notes, uint32_t{kNoteFellBackToModel}) << policy;
    EXPECT_EQ(d.reason_code, ReasonCode::kFastest) << policy;
  }
}

TEST(Objective, TimeToFirstTokenPrefersPrefill) {
  Fleet fleet;
  fleet.Add("decodes", fixtures::Rates(3, 10));
  fleet.Add("prefills", fixtures::Rates(1, 40));
  EXPECT_EQ(Chosen(fleet.Route(1000, 100)), "decodes");  // 4000 against 5000 ms
  fleet.policy.objective = Objective::kTtft;
  const Decision d = fleet.Route(1000, 100);
  EXPECT_EQ(Chosen(d), "prefills");  // 3010 against 1040 ms
  EXPECT_NEAR(d.candidates[1].score_ms, 1040, 1e-9);
}

TEST(Policy, NamesParseBack) {
  for (const char* name : {"only:x y", "prompt-only", "psr", "psr-eff", "pcar", "extended"}) {
    EXPECT_EQ(Name(*ParsePolicy(name)), name);
  }
  EXPECT_EQ(Name(*ParsePolicy("cpu-only")), "only:cpu");
  for (const char* name : {"", "only:", "oracle", "PSR"}) {
    const Result<Policy> policy = ParsePolicy(name);
    ASSERT_FALSE(policy.ok());
    EXPECT_NE(policy.error().message().find("psr-eff"), std::string::npos);
  }
  EXPECT_EQ(ParseObjective("ttft"), Objective::kTtft);
  EXPECT_EQ(ParseObjective("x"), std::nullopt);
}

TEST(Policy, CheckNamesWhatIsMissing) {
  const Fleet paper = PaperFleet("pcar");
  const std::vector<std::string> names = {"cpu", "npu"};
  for (const char* name : {"only:npu", "prompt-only", "psr", "psr-eff", "pcar", "extended"}) {
    EXPECT_TRUE(CheckPolicy(*ParsePolicy(name), paper.models, names).ok()) << name;
  }
  const auto message = [&](const char* policy, const Models& models) {
    const Result<void> r = CheckPolicy(*ParsePolicy(policy), models, names);
    return r.ok() ? std::string() : r.error().message();
  };
  EXPECT_EQ(message("only:gpu", paper.models), "policy only:gpu: no backend 'gpu'");
  Models bare;
  bare.backends.resize(2);
  EXPECT_EQ(message("psr", bare), "policy psr: the model file has no psr table");
  EXPECT_EQ(message("prompt-only", bare),
            "policy prompt-only: the model file has no prompt_only threshold");
  EXPECT_EQ(message("pcar", bare),
            "policy pcar: the model file has no paper-form model of backend 'cpu'");
  Models other = paper.models;
  other.psr->long_side = "gpu";
  EXPECT_EQ(message("psr-eff", other), "policy psr-eff: no backend 'gpu'");
}

}  // namespace
}  // namespace parallax::router
