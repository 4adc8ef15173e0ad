// Cases about what a backend's cache is believed to hold.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "router/latency_model.h"
#include "router/prefix_index.h"
#include "tests/router/cache_mocks.h"

namespace parallax::router {
namespace {

using mocks::BlockLru;
using mocks::Conversations;
using mocks::Joined;
using mocks::MockCache;
using mocks::Report;
using mocks::Sequence;
using mocks::SequenceLru;

// Mean of |predicted - actual| / prompt over the requests from..to of a run against a mock.
struct Accuracy {
  double first_200 = 0;
  double next_200 = 0;
  double reuse = 0;  // actual / prompt, over all 400
  int64_t capacity = 0;
};

Accuracy Follow(MockCache& mock, const Conversations::Options& options, int64_t configured,
                uint32_t seed) {
  PrefixIndex index;
  index.AddBackend(0, {.max_tokens = configured});
  Conversations conversations(seed, options);
  Accuracy result;
  for (int i = 0; i < 400; ++i) {
    const auto [prompt, answer] = conversations.Next();
    const size_t predicted = index.Match(0, prompt).reusable;
    const size_t actual = mock.Process(prompt, answer);
    const double size = static_cast<double>(prompt.size());
    const double miss =
        std::abs(static_cast<double>(predicted) - static_cast<double>(actual)) / size;
    (i < 200 ? result.first_200 : result.next_200) += miss / 200;
    result.reuse += static_cast<double>(actual) / size / 400;
    index.Complete(0, Report(Joined(prompt, answer), prompt.size(), predicted, actual));
  }
  result.capacity = index.Gauges(0).capacity_symbols;
  return result;
}

struct GuessCase {
  const char* name;
  Conversations::Options options;
  int64_t configured;
};
class CaseRouterGuessesTheCache : public ::testing::TestWithParam<GuessCase> {};

TEST_P(CaseRouterGuessesTheCache, LearnsTheCapacity) {
  for (bool blocks : {true, false}) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      std::unique_ptr<MockCache> mock;
      if (blocks) {
        mock = std::make_unique<BlockLru>(4096);
      } else {
        mock = std::make_unique<SequenceLru>(4096);
      }
      const Accuracy a = Follow(*mock, GetParam().options, GetParam().configured, seed);
      SCOPED_TRACE(std::string(blocks ? "blocks" : "sequences") + ", seed " + std::to_string(seed));
      EXPECT_LT(a.first_200, 0.10);
      EXPECT_LT(a.next_200, 0.10);
      // Blocks are modelled exactly; of sequences, shared prefixes are counted once, not twice.
      if (blocks) {
        EXPECT_LT(a.next_200, 0.01);
        EXPECT_NEAR(static_cast<double>(a.capacity), 4096, 100);
      }
      // The workload is neither all hits nor all misses.
      EXPECT_GT(a.reuse, 0.1);
      EXPECT_LT(a.reuse, 0.9);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Cases, CaseRouterGuessesTheCache,
    ::testing::Values(GuessCase{"plain", {.count = 10}, 16384},
                      GuessCase{"few", {.count = 5}, 16384},
                      GuessCase{"many", {.count = 20}, 16384},
                      GuessCase{"system", {.count = 10, .system_tokens = 400}, 16384},
                      GuessCase{"unknown", {.count = 10}, 0},
                      GuessCase{"too_small", {.count = 10}, 1024},
                      GuessCase{"long", {.count = 6, .first_tokens = 900, .longest = 2500}, 16384}),
    [](const auto& test) { return std::string(test.param.name); });

// The router predicted 285 of 290, the backend reused nothing (another slot was used). The next
// identical request is predicted to prefill all of it. One slot, several slots, an LRU cache.
TEST(CasePromptCacheSkippedWhenASlotIsPinned, TheIndexIsCorrected) {
  for (int64_t slots : {1, 2, 0}) {
    SCOPED_TRACE(slots);
    PrefixIndex index;
    index.AddBackend(0, {.max_sequences = slots});
    Sequence a(290), b(290);
    for (size_t i = 0; i < 290; ++i) {
      a[i] = static_cast<Symbol>(i);
      b[i] = static_cast<Symbol>(i < 3 ? i : 1000 + i);
    }
    Sequence first(a.begin(), a.begin() + 285);
    const auto complete = [&](const Sequence& s, int64_t predicted, int64_t reported) {
      return index.Complete(0, {.symbols = s,
                                .prompt_symbols = s.size(),
                                .prompt_tokens = static_cast<int64_t>(s.size()),
                                .predicted_tokens = predicted,
                                .reported_tokens = reported});
    };
    complete(first, 0, 0);
    ASSERT_EQ(index.Match(0, a).reusable, 285u);
    const double before = index.Gauges(0).hit_ratio;
    complete(first, 284, 284);
    ASSERT_GT(index.Gauges(0).hit_ratio, before);
    const double hits = index.Gauges(0).hit_ratio;

    EXPECT_EQ(complete(a, 285, 0), ReportVerdict::kUnexplained);
    EXPECT_EQ(index.Gauges(0).mispredictions, 1);
    EXPECT_LT(index.Gauges(0).hit_ratio, hits);
    const PrefixMatch next = index.Match(0, a);
    EXPECT_EQ(MakeWorkload(290, 8, static_cast<int64_t>(next.held)).Effective(), 290);
    // It does hit, and is believed again.
    EXPECT_EQ(complete(a, 0, 289), ReportVerdict::kMore);
    EXPECT_EQ(index.Match(0, a).reusable, 289u);
  }
}

TEST(CaseRoutersPrefixIndexGrowsWithoutBound, StaysUnderItsCap) {
  constexpr int64_t kCap = int64_t{4} << 20;
  PrefixIndex index({.byte_cap = kCap});
  index.AddBackend(0, {.tokens_per_symbol = 4});
  index.AddBackend(1, {.tokens_per_symbol = 4});
  const auto prompt = [](int i) {
    std::string text = "conversation " + std::to_string(i) + ":";
    while (text.size() < 2000) text += " lorem ipsum " + std::to_string(text.size() * (i % 97));
    text.resize(2000);
    return ByteBlocks(text, 16);
  };
  for (int i = 0; i < 100'000; ++i) {
    const std::vector<Symbol> blocks = prompt(i);
    index.Insert(static_cast<BackendId>(i % 2), blocks, blocks.size());
    ASSERT_LE(index.bytes(), kCap);
  }
  EXPECT_GT(index.bytes(), kCap * 9 / 10);  // the cap is used
  for (int i = 99'900; i < 100'000; ++i) {
    const std::vector<Symbol> blocks = prompt(i);
    EXPECT_EQ(index.Match(static_cast<BackendId>(i % 2), blocks).held, blocks.size()) << i;
  }
  const CacheGauges kept = index.Gauges(0);
  index.RemoveBackend(1);
  EXPECT_EQ(index.bytes(), kept.bytes);
  EXPECT_EQ(index.entries(), kept.entries);
  EXPECT_EQ(index.Match(1, prompt(99'999)).held, 0u);
  EXPECT_EQ(index.Gauges(1).bytes, 0);
}

}  // namespace
}  // namespace parallax::router
