// PrefixIndex against models that are slow and plain: a list of slots, and a list of every stored
// prefix in order of use.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "router/prefix_index.h"

namespace parallax::router {
namespace {

using Sequence = std::vector<Symbol>;

// Conversations: a sequence is a new one, or continues, repeats, shortens or branches off an old
// one.
class Sequences {
 public:
  Sequences(uint32_t seed, uint32_t alphabet, size_t longest)
      : random_(seed), alphabet_(alphabet), longest_(longest) {}

  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  const Sequence& Next() {
    if (pool_.size() < 40) return Add({});
    Sequence& old = pool_[Below(pool_.size())];
    switch (Below(6)) {
      case 0:
        return old;
      case 1:
        old.resize(old.size() - Below(old.size()));
        return old;
      case 2:
        old[Below(old.size())] = Random();
        return old;
      case 3:
        old = {};
        return Grow(old);
      default:
        return Grow(old);
    }
  }

 private:
  Symbol Random() { return static_cast<Symbol>(Below(alphabet_)); }
  const Sequence& Add(Sequence s) {
    pool_.push_back(std::move(s));
    return Grow(pool_.back());
  }
  const Sequence& Grow(Sequence& s) {
    const size_t more = 1 + Below(8);
    for (size_t i = 0; i < more && s.size() < longest_; ++i) s.push_back(Random());
    return s;
  }

  std::mt19937 random_;
  uint32_t alphabet_;
  size_t longest_;
  std::vector<Sequence> pool_;
};

size_t Common(const Sequence& a, const Sequence& b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n] && a[n] != kUnknownSymbol) ++n;
  return n;
}

// llama-server's slots as its source describes them.
struct PlainSlots {
  struct Slot {
    Sequence content;
    uint64_t use = 0;
  };
  explicit PlainSlots(size_t n) : slots(n) {}

  size_t Choose(const Sequence& prompt) const {
    size_t best = slots.size(), best_common = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
      const size_t common = Common(slots[i].content, prompt);
      if (common > best_common &&
          static_cast<double>(common) > 0.10 * static_cast<double>(prompt.size())) {
        best = i;
        best_common = common;
      }
    }
    if (best < slots.size()) return best;
    best = 0;
    for (size_t i = 1; i < slots.size(); ++i) {
      if (slots[i].use < slots[best].use) best = i;
    }
    return best;
  }

  size_t Held(const Sequence& prompt) const {
    return Common(slots[Choose(prompt)].content, prompt);
  }
  void Insert(const Sequence& all, const Sequence& prompt) {
    Slot& slot = slots[Choose(prompt)];
    slot.content = all;
    slot.use = ++uses;
  }
  std::vector<Slot> slots;
  uint64_t uses = 0;
};

class Slots : public ::testing::TestWithParam<size_t> {};

TEST_P(Slots, MatchAsPlainSlotsDo) {
  const size_t n = GetParam();
  PrefixIndex index;
  index.AddBackend(7, {.max_sequences = static_cast<int64_t>(n)});
  PlainSlots plain(n);
  Sequences sequences(static_cast<uint32_t>(n), /*alphabet=*/3, /*longest=*/60);
  size_t held_sum = 0;
  for (int op = 0; op < 40'000; ++op) {
    Sequence prompt = sequences.Next();
    if (sequences.Below(50) == 0) prompt[sequences.Below(prompt.size())] = kUnknownSymbol;
    const PrefixMatch match = index.Match(7, prompt);
    ASSERT_EQ(match.held, plain.Held(prompt)) << "operation " << op;
    ASSERT_EQ(match.reusable, std::min(match.held, prompt.size() - 1));
    held_sum += match.held;
    const size_t kind = sequences.Below(1000);
    if (kind == 0) {
      index.Clear(7);
      plain = PlainSlots(n);
    } else {
      Sequence all = prompt;
      for (size_t i = sequences.Below(5); i > 0; --i) all.push_back(static_cast<Symbol>(i));
      if (sequences.Below(20) == 0) all.push_back(kUnknownSymbol);
      index.Insert(7, all, prompt.size());
      plain.Insert(all, prompt);
    }
  }
  EXPECT_GT(held_sum, 20'000u);  // the sequences do meet
  // Nothing but what the slots hold is stored, shared prefixes once.
  size_t whole = 0;
  for (const auto& slot : plain.slots) whole += slot.content.size();
  EXPECT_LE(index.Gauges(7).symbols, static_cast<int64_t>(whole));
  EXPECT_LE(index.Gauges(7).entries, static_cast<int64_t>(n));
}
INSTANTIATE_TEST_SUITE_P(PrefixIndex, Slots, ::testing::Values(1, 2, 3, 4, 9));

// Every stored prefix, the one used last first; in one use, shorter prefixes count as newer.
struct PlainRecency {
  // Prefixes of sequences over 4 symbols, at most 24 long, as numbers.
  static uint64_t Key(const Sequence& s, size_t length) {
    uint64_t key = 1;
    for (size_t i = 0; i < length; ++i) key = key << 2 | s[i];
    return key;
  }
  size_t Stored(const Sequence& s) const {
    size_t n = 0;
    while (n < s.size() && std::find(order.begin(), order.end(), Key(s, n + 1)) != order.end()) ++n;
    return n;
  }
  void Use(const Sequence& s, size_t length) {
    for (size_t n = length; n > 0; --n) {
      const uint64_t key = Key(s, n);
      const auto it = std::find(order.begin(), order.end(), key);
      if (it != order.end()) order.erase(it);
      order.insert(order.begin(), key);
    }
  }
  // What a cache of `capacity` symbols still holds.
  size_t Held(const Sequence& s, size_t capacity) const {
    const auto end = order.begin() + static_cast<ptrdiff_t>(std::min(capacity, order.size()));
    size_t n = 0;
    while (n < s.size() && std::find(order.begin(), end, Key(s, n + 1)) != end) ++n;
    return n;
  }
  std::vector<uint64_t> order;
};

struct RecencyCase {
  int64_t capacity;  // 0: unknown
  int64_t byte_cap;
  int operations;
};
class Recency : public ::testing::TestWithParam<RecencyCase> {};

TEST_P(Recency, MatchesStackDistancesAndEvictsTheOldest) {
  const RecencyCase& param = GetParam();
  PrefixIndex index({.byte_cap = param.byte_cap});
  index.AddBackend(1, {.max_tokens = param.capacity});
  PlainRecency plain;
  Sequences sequences(5, /*alphabet=*/4, /*longest=*/24);
  int64_t evictions = 0;
  for (int op = 0; op < param.operations; ++op) {
    const Sequence prompt = sequences.Next();
    const size_t capacity =
        param.capacity == 0 ? plain.order.size() : static_cast<size_t>(param.capacity);
    ASSERT_EQ(index.Match(1, prompt).held, plain.Held(prompt, capacity)) << "operation " << op;
    if (sequences.Below(5) == 0) {
      const size_t stored = plain.Stored(prompt);
      index.Insert(1, SymbolSpan(prompt).first(stored), stored);
      plain.Use(prompt, stored);
    } else {
      index.Insert(1, prompt, prompt.size());
      plain.Use(prompt, prompt.size());
    }
    ASSERT_LE(index.bytes(), param.byte_cap);
    // What the cap pushed out is the oldest of all: whole nodes from the end of the order.
    const size_t stored = static_cast<size_t>(index.Gauges(1).symbols);
    ASSERT_LE(stored, plain.order.size());
    evictions += stored < plain.order.size();
    plain.order.resize(stored);
  }
  EXPECT_EQ(evictions > 0, param.byte_cap < 1 << 20);
}
INSTANTIATE_TEST_SUITE_P(PrefixIndex, Recency,
                         ::testing::Values(RecencyCase{0, 24 << 10, 40'000},
                                           RecencyCase{100, 24 << 10, 40'000},
                                           RecencyCase{20, 24 << 10, 40'000},
                                           RecencyCase{150, 64 << 20, 1'500}));

}  // namespace
}  // namespace parallax::router
