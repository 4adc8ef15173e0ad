#include "router/prefix_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace parallax::router {
namespace {

using Sequence = std::vector<Symbol>;

// `count` symbols that no other `first` gives.
Sequence Text(Symbol first, size_t count) {
  Sequence s(count);
  std::iota(s.begin(), s.end(), first * 100'000);
  return s;
}
Sequence operator+(Sequence a, const Sequence& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
ReportVerdict Complete(PrefixIndex& index, const Sequence& prompt, const Sequence& answer,
                       int64_t predicted, int64_t reported) {
  const Sequence all = prompt + answer;
  return index.Complete(0, {.symbols = all,
                            .prompt_symbols = prompt.size(),
                            .prompt_tokens = static_cast<int64_t>(prompt.size()),
                            .predicted_tokens = predicted,
                            .reported_tokens = reported});
}

TEST(PrefixIndex, KnowsNothingOfUnknownBackendsAndEmptyPrompts) {
  PrefixIndex index;
  index.Insert(3, Text(1, 10), 10);
  EXPECT_EQ(index.Match(3, Text(1, 10)).held, 0u);
  EXPECT_EQ(index.bytes(), 0);
  index.AddBackend(3, {});
  index.Insert(3, {}, 0);
  EXPECT_EQ(index.Match(3, {}).held, 0u);
  EXPECT_EQ(index.Match(3, {}).reusable, 0u);
  EXPECT_EQ(index.entries(), 0);
  index.RemoveBackend(3);
  EXPECT_EQ(index.bytes(), 0);
}

TEST(PrefixIndex, ReusesAtMostAllButOneToken) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  index.Insert(0, Text(1, 500), 450);
  const Sequence whole = Text(1, 500);
  EXPECT_EQ(index.Match(0, whole).held, 500u);
  EXPECT_EQ(index.Match(0, whole).reusable, 499u);
  EXPECT_EQ(index.Match(0, whole + Text(2, 10)).reusable, 500u);
  EXPECT_EQ(index.Match(0, Sequence(whole.begin(), whole.begin() + 100)).reusable, 99u);
}

// llama-server with one slot and no host prompt cache, as measured: X, Y, X gives no reuse beyond
// what X and Y share.
TEST(PrefixIndex, OneSlotForgetsWhatTheNextPromptDoesNotShare) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  const Sequence system = Text(9, 300);
  const Sequence x = system + Text(1, 200), y = system + Text(2, 200);
  index.Insert(0, x, x.size());
  EXPECT_EQ(index.Match(0, y).held, 300u);
  index.Insert(0, y, y.size());
  EXPECT_EQ(index.Match(0, x).held, 300u);
}

TEST(PrefixIndex, UnknownSymbolsEndWhatMatches) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  Sequence stored = Text(1, 20);
  stored[12] = kUnknownSymbol;
  index.Insert(0, stored, 10);
  EXPECT_EQ(index.Match(0, stored).held, 12u);
  Sequence asked = Text(1, 20);
  asked[5] = kUnknownSymbol;
  EXPECT_EQ(index.Match(0, asked).held, 5u);
}

TEST(PrefixIndex, RestartEmptiesOneBackendOnly) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 4});
  index.AddBackend(1, {.max_sequences = 4});
  index.Insert(0, Text(1, 100), 100);
  index.Insert(1, Text(1, 100), 100);
  index.Clear(0);
  EXPECT_EQ(index.Match(0, Text(1, 100)).held, 0u);
  EXPECT_EQ(index.Match(1, Text(1, 100)).held, 100u);
}

// The cap counts all backends together, and what was used longest ago goes first, wherever it is.
TEST(PrefixIndex, EvictsAcrossBackends) {
  PrefixIndex index({.byte_cap = 64 << 10});
  index.AddBackend(0, {});
  index.AddBackend(1, {});
  index.Insert(0, Text(1, 1000), 1000);
  index.Insert(1, Text(2, 1000), 1000);
  index.Insert(0, Text(1, 1000), 1000);
  Symbol next = 10;
  while (index.Match(1, Text(2, 1000)).held == 1000 && next < 100) {
    index.Insert(1, Text(next, 1000), 1000);
    EXPECT_EQ(index.Match(0, Text(1, 1000)).held, 1000u) << "evicted before an older one";
    ++next;
  }
  EXPECT_LT(next, 30u);
  EXPECT_LE(index.bytes(), 64 << 10);
}

TEST(PrefixIndex, KeepsNothingThatIsLargerThanTheCap) {
  PrefixIndex index({.byte_cap = 16 << 10});
  index.AddBackend(0, {});
  index.Insert(0, Text(1, 10'000), 10'000);
  EXPECT_EQ(index.Match(0, Text(1, 10'000)).held, 0u);
  EXPECT_LE(index.bytes(), 16 << 10);
}

TEST(PrefixIndex, EvictionShortensWhatSlotsAreBelievedToHold) {
  PrefixIndex index({.byte_cap = 24 << 10});
  index.AddBackend(0, {.max_sequences = 2});
  index.AddBackend(1, {});
  const Sequence shared = Text(1, 500);
  index.Insert(0, shared + Text(2, 1500), 2000);
  index.Insert(0, shared + Text(3, 100), 600);
  index.Insert(0, shared + Text(2, 1500), 2000);
  for (Symbol i = 10; i < 30; ++i) index.Insert(1, Text(i, 1000), 1000);
  EXPECT_EQ(index.Match(0, shared + Text(3, 100)).held, 0u);
  index.Insert(0, shared + Text(3, 100), 600);
  EXPECT_EQ(index.Match(0, shared + Text(3, 100)).held, 600u);
}

TEST(PrefixIndexReport, ConfirmsAndCountsHits) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  const Sequence first = Text(1, 200);
  EXPECT_EQ(Complete(index, first, Text(2, 20), 0, 0), ReportVerdict::kConfirmed);
  const Sequence second = first + Text(2, 20) + Text(3, 80);
  EXPECT_EQ(index.Match(0, second).reusable, 220u);
  EXPECT_EQ(Complete(index, second, Text(4, 20), 220, 220), ReportVerdict::kConfirmed);
  const CacheGauges gauges = index.Gauges(0);
  EXPECT_EQ(gauges.reports, 2);
  EXPECT_EQ(gauges.mispredictions, 0);
  EXPECT_NEAR(gauges.hit_ratio, 220.0 / 500, 1e-12);  // the mean of two, weighted by tokens
}

// A request that was decided before another one changed the cache is no reason for doubt.
TEST(PrefixIndexReport, StalePredictionsAreNotHeldAgainstTheCache) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  Complete(index, Text(1, 200), {}, 0, 0);
  Complete(index, Text(2, 200), {}, 0, 0);
  EXPECT_EQ(Complete(index, Text(1, 200), {}, /*predicted=*/199, 0), ReportVerdict::kStale);
  EXPECT_EQ(index.Match(0, Text(1, 200)).held, 200u);
  EXPECT_EQ(index.Gauges(0).mispredictions, 1);
}

// Gemma's sliding window without --swa-full, as measured: the same prompt again reuses 195 of 200.
// The next turn, which goes on from it, reuses all but the last few tokens of this one.
TEST(PrefixIndexReport, AFewTokensLessPutNothingInDoubt) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  const Sequence prompt = Text(1, 200);
  Complete(index, prompt, {}, 0, 0);
  EXPECT_EQ(Complete(index, prompt, {}, 199, 195), ReportVerdict::kPart);
  EXPECT_EQ(index.Match(0, prompt).reusable, 199u);
  EXPECT_EQ(Complete(index, prompt + Text(2, 50), {}, 200, 195), ReportVerdict::kPart);
  EXPECT_EQ(index.Match(0, prompt + Text(2, 50) + Text(3, 50)).reusable, 250u);
  EXPECT_EQ(index.Gauges(0).mispredictions, 2);
}

// A shorter prefix reuses nothing there: that is in doubt until a report says otherwise.
TEST(PrefixIndexReport, LearnsWhatARepeatReallyReuses) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  const Sequence prompt = Text(1, 200);
  Complete(index, prompt, {}, 0, 0);
  EXPECT_EQ(Complete(index, prompt, {}, 199, 50), ReportVerdict::kUnexplained);
  EXPECT_EQ(index.Match(0, prompt).reusable, 50u);
  EXPECT_EQ(Complete(index, prompt, {}, 50, 50), ReportVerdict::kConfirmed);
  EXPECT_EQ(index.Match(0, prompt).reusable, 50u);
  EXPECT_EQ(Complete(index, prompt, {}, 50, 199), ReportVerdict::kMore);
  EXPECT_EQ(index.Match(0, prompt).reusable, 199u);
}

TEST(PrefixIndexReport, ABackendThatNeverReusesIsSoonNotBelieved) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = 1});
  int64_t predicted_hits = 0;
  for (Symbol conversation = 1; conversation <= 20; ++conversation) {
    Sequence prompt = Text(conversation, 100);
    for (Symbol turn = 0; turn < 4; ++turn) {
      const auto predicted = static_cast<int64_t>(index.Match(0, prompt).reusable);
      predicted_hits += predicted > 0;
      Complete(index, prompt, Text(1000 + conversation * 10 + turn, 30), predicted, 0);
      prompt = prompt + Text(1000 + conversation * 10 + turn, 30) + Text(5000 + turn, 20);
    }
  }
  // One mistaken belief for each of the first conversations, then none.
  EXPECT_EQ(predicted_hits, PrefixIndex::kDistrustAfter);
  // It begins to cache (restarted with other options): one report is enough to believe again.
  const Sequence last = Text(77, 100);
  Complete(index, last, {}, 0, 0);
  EXPECT_EQ(index.Match(0, last).reusable, 0u);
  EXPECT_EQ(Complete(index, last, {}, 0, 99), ReportVerdict::kMore);
  EXPECT_EQ(index.Match(0, last).reusable, 99u);
  const Sequence other = Text(78, 100);
  Complete(index, other, {}, 0, 0);
  EXPECT_EQ(index.Match(0, other).reusable, 99u);
}

// Blocks of 16 tokens: what is reported ends inside a block.
TEST(PrefixIndexReport, BlocksAreRightToWithinTwoBlocks) {
  PrefixIndex index;
  index.AddBackend(0, {.tokens_per_symbol = 16});
  const Sequence blocks = Text(1, 50);
  const auto report = [&](int64_t predicted, int64_t reported) {
    return index.Complete(0, {.symbols = blocks,
                              .prompt_symbols = 50,
                              .prompt_tokens = 800,
                              .predicted_tokens = predicted,
                              .reported_tokens = reported});
  };
  EXPECT_EQ(report(0, 0), ReportVerdict::kConfirmed);
  EXPECT_EQ(report(799, 770), ReportVerdict::kConfirmed);
  EXPECT_EQ(report(799, 799), ReportVerdict::kConfirmed);
  EXPECT_EQ(report(700, 799), ReportVerdict::kMore);
  EXPECT_EQ(report(799, 400), ReportVerdict::kUnexplained);
  EXPECT_EQ(index.Match(0, blocks).held, 25u);
}

TEST(PrefixIndexReport, SurvivesNonsense) {
  PrefixIndex index;
  index.AddBackend(0, {.max_sequences = -5, .max_tokens = -1, .tokens_per_symbol = 0});
  const Sequence s = Text(1, 30);
  for (int64_t tokens : {int64_t{-1}, int64_t{0}, int64_t{30}, INT64_MAX}) {
    for (int64_t reported : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{29}, INT64_MAX}) {
      for (size_t prompt : {size_t{0}, size_t{30}, SIZE_MAX}) {
        index.Complete(0, {.symbols = s,
                           .prompt_symbols = prompt,
                           .prompt_tokens = tokens,
                           .predicted_tokens = reported,
                           .reported_tokens = reported});
        EXPECT_LE(index.Match(0, s).held, 30u);
      }
    }
  }
}

}  // namespace
}  // namespace parallax::router
