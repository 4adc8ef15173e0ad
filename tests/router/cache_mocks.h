// Caches of scripted backends, written plainly and apart from the index: what they really reuse.
//
// Role:       ground truth of the tests that let PrefixIndex learn from reports.
// Ownership:  values.
// Threads:    one caller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>
#include <vector>

#include "router/prefix_index.h"
#include "router/symbols.h"

namespace parallax::router::mocks {

using Sequence = std::vector<Symbol>;

inline size_t CommonLength(const Sequence& a, const Sequence& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

inline Sequence Joined(const Sequence& prompt, const Sequence& answer) {
  Sequence all = prompt;
  all.insert(all.end(), answer.begin(), answer.end());
  return all;
}

// What a request that has ended tells the index; `all` begins with the prompt and outlives the report.
inline CacheReport Report(const Sequence& all, size_t prompt, size_t predicted, size_t reused) {
  CacheReport report;
  report.symbols = all;
  report.prompt_symbols = prompt;
  report.prompt_tokens = static_cast<int64_t>(prompt);
  report.predicted_tokens = static_cast<int64_t>(predicted);
  report.reported_tokens = static_cast<int64_t>(reused);
  return report;
}

class MockCache {
 public:
  virtual ~MockCache() = default;
  // Processes a prompt and its answer; returns the prompt tokens reused, at most prompt - 1.
  virtual size_t Process(const Sequence& prompt, const Sequence& answer) = 0;
};

// Blocks of 16 tokens, each known by everything up to its end; the least recently used go first,
// and of one sequence the last block first (paged attention, RadixAttention).
class BlockLru : public MockCache {
 public:
  explicit BlockLru(size_t tokens) : blocks_(tokens / kBlock) {}

  size_t Process(const Sequence& prompt, const Sequence& answer) override {
    size_t hit = 0;
    while ((hit + 1) * kBlock < prompt.size() && Find(prompt, (hit + 1) * kBlock) != order_.end()) {
      ++hit;
    }
    Sequence all = Joined(prompt, answer);
    for (size_t n = all.size() / kBlock; n > 0; --n) {
      const auto it = Find(all, n * kBlock);
      if (it != order_.end()) order_.erase(it);
      order_.push_front(Key(all, n * kBlock));
    }
    while (order_.size() > blocks_) order_.pop_back();
    return hit * kBlock;
  }

 private:
  static constexpr size_t kBlock = 16;
  static uint64_t Key(const Sequence& s, size_t length) {
    uint64_t key = 14695981039346656037ull;  // FNV-1a
    for (size_t i = 0; i < length; ++i) key = (key ^ s[i]) * 1099511628211ull;
    return key;
  }
  std::list<uint64_t>::iterator Find(const Sequence& s, size_t length) {
    return std::find(order_.begin(), order_.end(), Key(s, length));
  }

  size_t blocks_;
  std::list<uint64_t> order_;  // newest first
};

// Whole sequences; a sequence that another one extends is dropped; the least recently used goes
// first (llama-server's host prompt cache).
class SequenceLru : public MockCache {
 public:
  explicit SequenceLru(size_t tokens) : tokens_(tokens) {}

  size_t Process(const Sequence& prompt, const Sequence& answer) override {
    auto best = kept_.end();
    size_t hit = 0;
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      const size_t common = CommonLength(*it, prompt);
      if (common > hit) {
        hit = common;
        best = it;
      }
    }
    // A sequence that was only branched off stays, and has been used.
    if (best != kept_.end()) kept_.splice(kept_.begin(), kept_, best);
    Sequence all = Joined(prompt, answer);
    kept_.remove_if([&](const Sequence& s) { return CommonLength(s, all) == s.size(); });
    kept_.push_front(std::move(all));
    size_t sum = 0;
    for (const Sequence& s : kept_) sum += s.size();
    while (sum > tokens_ && kept_.size() > 1) {
      sum -= kept_.back().size();
      kept_.pop_back();
    }
    return std::min(hit, prompt.size() - 1);
  }

 private:
  size_t tokens_;
  std::list<Sequence> kept_;  // newest first
};

// Conversations that take turns at random; some share a system prompt.
class Conversations {
 public:
  struct Options {
    size_t count = 10;
    size_t system_tokens = 0;  // shared by every second one
    size_t first_tokens = 300;
    size_t turn_tokens = 40;
    size_t answer_tokens = 60;
    size_t longest = 1500;  // then it starts anew
  };
  Conversations(uint32_t seed, const Options& options)
      : random_(seed), options_(options), texts_(options.count) {
    system_ = Text(options.system_tokens);
  }

  // The next prompt; the answer that will be appended to it comes with it.
  std::pair<Sequence, Sequence> Next() {
    // Squared: some talk much more than others.
    const double u = std::uniform_real_distribution<double>(0, 1)(random_);
    const auto which = static_cast<size_t>(u * u * static_cast<double>(texts_.size()));
    Sequence& text = texts_[which];
    if (text.empty() || text.size() > options_.longest) {
      text = which % 2 == 0 ? system_ : Sequence{};
      Append(text, Text(Around(options_.first_tokens)));
    } else {
      Append(text, Text(Around(options_.turn_tokens)));
    }
    std::pair<Sequence, Sequence> next{text, Text(Around(options_.answer_tokens))};
    Append(text, next.second);
    return next;
  }

 private:
  size_t Around(size_t n) {
    return std::max<size_t>(1, std::uniform_int_distribution<size_t>(n / 2, n + n / 2)(random_));
  }
  Sequence Text(size_t n) {
    Sequence s(n);
    for (Symbol& symbol : s) symbol = static_cast<Symbol>(random_() % 30'000);
    return s;
  }
  static void Append(Sequence& a, const Sequence& b) { a.insert(a.end(), b.begin(), b.end()); }

  std::mt19937 random_;
  Options options_;
  Sequence system_;
  std::vector<Sequence> texts_;
};

}  // namespace parallax::router::mocks
