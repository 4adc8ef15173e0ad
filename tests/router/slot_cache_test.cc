// A llama-server with slots and a host prompt cache, whose settings the index has to find out.
#include "router/slot_cache.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "router/prefix_index.h"
#include "tests/router/cache_mocks.h"

namespace parallax::router {
namespace {

using mocks::CommonLength;
using mocks::Conversations;
using mocks::Joined;
using mocks::MockCache;
using mocks::Report;
using mocks::Sequence;

// get_available_slot and server_prompt_cache as llama-server's source has them, on plain vectors.
class PlainLlamaServer : public MockCache {
 public:
  PlainLlamaServer(const SlotCache::Rules& rules, size_t host_tokens)
      : rules_(rules), host_tokens_(host_tokens), slots_(rules.slots) {}

  size_t Process(const Sequence& prompt, const Sequence& answer) override {
    const size_t reused = Begin(0, prompt);
    Finish(0, answer);
    return reused;
  }

  // As many at once as there are slots.
  size_t Begin(uint64_t id, const Sequence& prompt) {
    Slot* slot = nullptr;
    bool update = false;
    float best = 0;
    for (Slot& s : slots_) {
      if (s.busy) continue;
      const float share =
          static_cast<float>(CommonLength(s.tokens, prompt)) / static_cast<float>(prompt.size());
      if (!s.tokens.empty() && share > best && share > 0.1F) {
        best = share;
        slot = &s;
      }
    }
    if (slot != nullptr) {
      const float keep = static_cast<float>(CommonLength(slot->tokens, prompt)) /
                         static_cast<float>(slot->tokens.size());
      update = keep < 0.5F;
    } else {
      for (Slot& s : slots_) {
        if (s.busy) continue;
        if (slot == nullptr || s.last_used < slot->last_used) slot = &s;
      }
      update = true;
    }
    if (update && rules_.parks) {
      Save(slot->tokens);
      Load(slot->tokens, prompt);
    }
    const size_t reused = std::min(CommonLength(slot->tokens, prompt), prompt.size() - 1);
    slot->tokens = prompt;
    slot->reused = reused;
    slot->busy = true;
    slot->id = id;
    for (Slot& s : slots_) {
      if (s.busy || !rules_.parks_idle) continue;
      Save(s.tokens);
      if (rules_.clears_idle) s.tokens.clear();
    }
    return reused;
  }
  void Finish(uint64_t id, const Sequence& answer) {
    Slot& slot = Running(id);
    slot.tokens.insert(slot.tokens.end(), answer.begin(), answer.end());
    slot.busy = false;
    slot.last_used = ++clock_;
  }
  // Its client left before anything of it was processed.
  void Cancel(uint64_t id) {
    Slot& slot = Running(id);
    slot.tokens.resize(slot.reused);
    slot.busy = false;
    slot.last_used = ++clock_;
  }

 private:
  struct Slot {
    Sequence tokens;
    int64_t last_used = -1;
    bool busy = false;
    uint64_t id = 0;
    size_t reused = 0;
  };
  Slot& Running(uint64_t id) {
    return *std::find_if(slots_.begin(), slots_.end(),
                         [&](const Slot& slot) { return slot.busy && slot.id == id; });
  }

  void Save(const Sequence& tokens) {
    if (tokens.empty() || tokens.size() > host_tokens_) return;
    for (const Sequence& s : host_) {
      if (CommonLength(s, tokens) == tokens.size()) return;
    }
    host_.remove_if([&](const Sequence& s) { return CommonLength(s, tokens) == s.size(); });
    size_t sum = tokens.size();
    for (const Sequence& s : host_) sum += s.size();
    while (!host_.empty() && sum > host_tokens_) {
      sum -= host_.front().size();
      host_.pop_front();
    }
    host_.push_back(tokens);
  }
  void Load(Sequence& slot, const Sequence& prompt) {
    float keep = slot.empty() ? -1.0F
                              : static_cast<float>(CommonLength(slot, prompt)) /
                                    static_cast<float>(slot.size());
    float share =
        static_cast<float>(CommonLength(slot, prompt)) / static_cast<float>(prompt.size());
    auto chosen = host_.end();
    for (auto it = host_.begin(); it != host_.end(); ++it) {
      const auto common = static_cast<float>(CommonLength(*it, prompt));
      const float keep_here = common / static_cast<float>(it->size());
      const float share_here = common / static_cast<float>(prompt.size());
      if (keep_here >= 0.25F && keep_here > keep && share_here > share) {
        keep = keep_here;
        share = share_here;
        chosen = it;
      }
    }
    if (chosen == host_.end()) return;
    slot = std::move(*chosen);
    host_.erase(chosen);
  }

  SlotCache::Rules rules_;
  size_t host_tokens_;
  std::vector<Slot> slots_;
  std::list<Sequence> host_;  // the oldest first
  int64_t clock_ = 0;
};

struct Setting {
  const char* name;
  SlotCache::Rules rules;
};
constexpr Setting kSettings[] = {
    {"defaults", {.slots = 4, .parks = true, .parks_idle = true, .clears_idle = true}},
    {"np_2", {.slots = 2, .parks = true, .parks_idle = true}},
    {"np_4", {.slots = 4, .parks = true, .parks_idle = true}},
    {"np_1", {.slots = 1, .parks = true, .parks_idle = true}},
    {"kv_unified", {.slots = 3, .parks = true, .parks_idle = true, .clears_idle = true}},
    {"no_idle", {.slots = 4, .parks = true}},
    {"no_cache_ram", {.slots = 4}},
};

class LlamaSettings : public ::testing::Test {
 protected:
  // Of `requests`, those on which the index was not exactly right, in the order they came.
  static std::vector<int> Misses(MockCache& server, PrefixIndex& index, Conversations& traffic,
                                 int requests) {
    std::vector<int> misses;
    for (int i = 0; i < requests; ++i) {
      const auto [prompt, answer] = traffic.Next();
      const size_t predicted = index.Match(0, prompt).reusable;
      const size_t reused = server.Process(prompt, answer);
      if (predicted != reused) misses.push_back(i);
      index.Complete(0, Report(Joined(prompt, answer), prompt.size(), predicted, reused));
    }
    return misses;
  }
};

class EachSetting : public LlamaSettings, public ::testing::WithParamInterface<Setting> {};

TEST_P(EachSetting, IsFoundOutAndThenPredictedExactly) {
  const SlotCache::Rules& rules = GetParam().rules;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    PlainLlamaServer server(rules, /*host_tokens=*/1 << 20);
    PrefixIndex index;
    index.AddBackend(0, {.llama_slots = static_cast<int64_t>(rules.slots)});
    Conversations traffic(seed, {.count = 12, .system_tokens = seed % 2 == 0 ? 200U : 0U});
    const std::vector<int> misses = Misses(server, index, traffic, 400);
    // The settings that are thought likeliest are right from the first request.
    if (GetParam().name == std::string("defaults") || GetParam().name == std::string("np_2")) {
      EXPECT_TRUE(misses.empty()) << misses.size() << ", the first at " << misses.front();
    }
    // Others take some requests, in which one set of rules after the other is given up.
    EXPECT_LE(misses.size(), 12U);
    // Which of those with a host cache it is may not show: one request at a time, they reuse the
    //                                                      same.
    EXPECT_EQ(index.Gauges(0).rules == "slots", !rules.parks) << index.Gauges(0).rules;
    EXPECT_LT(misses.empty() ? 0 : misses.back(), 150);
  }
}

// Several at once, some of whose clients leave: a busy slot is nobody else's, and what a request leaves
// counts from when it leaves it.
TEST_P(EachSetting, IsFollowedWithRequestsSideBySide) {
  struct Running {
    uint64_t id;
    Sequence prompt, answer;
    size_t predicted, held, reused;
  };
  const SlotCache::Rules& rules = GetParam().rules;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PlainLlamaServer server(rules, /*host_tokens=*/1 << 20);
    PrefixIndex index;
    index.AddBackend(0, {.llama_slots = static_cast<int64_t>(rules.slots)});
    Conversations traffic(seed, {.count = 12, .system_tokens = seed % 2 == 0 ? 200U : 0U});
    std::vector<Running> running;
    std::vector<int> misses;
    for (int i = 0; i < 500; ++i) {
      auto [prompt, answer] = traffic.Next();
      const auto id = static_cast<uint64_t>(i + 1);
      const PrefixMatch match = index.Match(0, prompt);
      const PrefixMatch begun = index.Begin(0, prompt, id);
      EXPECT_EQ(match.reusable, begun.reusable);
      const size_t reused = server.Begin(id, prompt);
      if (begun.reusable != reused) misses.push_back(i);
      running.push_back(
          {id, std::move(prompt), std::move(answer), begun.reusable, begun.held, reused});
      while (running.size() == rules.slots || (!running.empty() && random() % 2 == 0)) {
        const size_t which = random() % running.size();
        const Running done = std::move(running[which]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
        if (random() % 8 == 0) {
          server.Cancel(done.id);
          const size_t left = std::min(done.held, done.prompt.size() - 1);
          index.Insert(0, SymbolSpan(done.prompt).first(left), left, done.id);
          index.Abandon(0, done.id);
          continue;
        }
        server.Finish(done.id, done.answer);
        CacheReport report = Report(done.prompt, done.prompt.size(), done.predicted, done.reused);
        report.run = done.id;
        index.Complete(0, report);
        // Its answer's tokens come later.
        index.Insert(0, Joined(done.prompt, done.answer), done.prompt.size(), done.id);
        index.Abandon(0, done.id);  // changes nothing any more
      }
    }
    if (GetParam().name == std::string("defaults") || GetParam().name == std::string("np_2")) {
      EXPECT_TRUE(misses.empty()) << misses.size() << ", the first at " << misses.front();
    }
    EXPECT_LE(misses.size(), 16U);
    EXPECT_LT(misses.empty() ? 0 : misses.back(), 250);
  }
}

// The host cache is smaller than what is parked: how much it holds is learned from what is missing.
TEST_F(LlamaSettings, TheHostCachesSizeIsLearned) {
  for (const Setting& setting : kSettings) {
    if (!setting.rules.parks) continue;
    SCOPED_TRACE(setting.name);
    PlainLlamaServer server(setting.rules, /*host_tokens=*/4000);
    PrefixIndex index;
    index.AddBackend(0, {.llama_slots = static_cast<int64_t>(setting.rules.slots)});
    Conversations traffic(5, {.count = 16});
    const std::vector<int> misses = Misses(server, index, traffic, 1200);
    const auto late = std::count_if(misses.begin(), misses.end(), [](int i) { return i >= 600; });
    EXPECT_LT(late, 60) << "of 600";
  }
}

INSTANTIATE_TEST_SUITE_P(SlotCache, EachSetting, ::testing::ValuesIn(kSettings),
                         [](const auto& test) { return std::string(test.param.name); });

// An answer that was generated as other tokens than its text gives: the cache is as good as before.
TEST(SlotCache, AnAnswerInOtherTokensPutsNothingInDoubt) {
  PrefixIndex index;
  index.AddBackend(0, {.llama_slots = 1});
  Sequence all(150);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Symbol>(i);
  const auto complete = [&](size_t prompt, size_t length, int64_t predicted, int64_t reported) {
    return index.Complete(0, {.symbols = SymbolSpan(all).first(length),
                              .prompt_symbols = prompt,
                              .prompt_tokens = static_cast<int64_t>(prompt),
                              .predicted_tokens = predicted,
                              .reported_tokens = reported});
  };
  complete(80, 100, 0, 0);  // 20 tokens of answer
  EXPECT_EQ(index.Match(0, SymbolSpan(all).first(120)).reusable, 100U);
  EXPECT_EQ(complete(120, 130, 100, 91), ReportVerdict::kPart);
  EXPECT_EQ(index.Match(0, all).reusable, 130U);
  // The same shortfall inside what was a prompt has no such reason.
  EXPECT_EQ(complete(150, 150, 130, 70), ReportVerdict::kUnexplained);
  EXPECT_EQ(index.Match(0, all).reusable, 70U);
}

// Reports without sense, requests that end in every order, twice or never, restarts, and a cap that
// evicts what is being processed: nothing hangs, and the index stays within its bytes.
TEST(SlotCache, SurvivesAnyOrderOfAnything) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const int64_t cap = seed % 3 == 0 ? 64 << 20 : 24 << 10;
    PrefixIndex index({.byte_cap = cap});
    index.AddBackend(0, {.llama_slots = 1 + seed % 5});
    index.AddBackend(1, {.max_sequences = 1 + seed % 3});
    index.AddBackend(2, {});
    Conversations traffic(seed, {.count = 6, .system_tokens = 60, .longest = 700});
    std::vector<std::pair<Sequence, Sequence>> texts;
    for (int i = 0; i < 300; ++i) {
      const auto backend = static_cast<BackendId>(random() % 3);
      const uint64_t run = random() % 12;
      if (texts.empty() || random() % 2 == 0) texts.push_back(traffic.Next());
      const auto& [prompt, answer] = texts[random() % texts.size()];
      const Sequence all = Joined(prompt, answer);
      switch (random() % 6) {
        case 0:
        case 1:
          index.Begin(backend, prompt, run);
          break;
        case 2:
          index.Insert(backend, all, random() % all.size(), run);
          break;
        case 3:
          index.Complete(backend,
                         {.run = run,
                          .symbols = all,
                          .prompt_symbols = prompt.size(),
                          .prompt_tokens = static_cast<int64_t>(prompt.size()),
                          .predicted_tokens = static_cast<int64_t>(random() % prompt.size()),
                          .reported_tokens = static_cast<int64_t>(random() % prompt.size())});
          break;
        case 4:
          index.Abandon(backend, run);
          break;
        default:
          if (random() % 20 == 0) index.Clear(backend);
      }
      const PrefixMatch match = index.Match(backend, prompt);
      ASSERT_LE(match.held, prompt.size()) << seed;
      ASSERT_LE(index.bytes(), cap) << seed;
    }
  }
}

// What a slot loses by the index's own cap is not believed to be there.
TEST(SlotCache, SurvivesEvictionByTheByteCap) {
  PrefixIndex index({.byte_cap = 40 << 10});
  index.AddBackend(0, {.llama_slots = 4});
  PlainLlamaServer server(kSettings[0].rules, 1 << 20);
  Conversations traffic(3, {.count = 30});
  size_t hits = 0;
  for (int i = 0; i < 600; ++i) {
    const auto [prompt, answer] = traffic.Next();
    const size_t predicted = index.Match(0, prompt).reusable;
    const size_t reused = server.Process(prompt, answer);
    ASSERT_LE(predicted, prompt.size() - 1);
    hits += predicted > 0 && predicted == reused;
    index.Complete(0, Report(Joined(prompt, answer), prompt.size(), predicted, reused));
    ASSERT_LE(index.bytes(), 40 << 10);
  }
  EXPECT_GT(hits, 100U);
}

}  // namespace
}  // namespace parallax::router
