// PrefixIndex: the router's shadow of what each backend's KV cache holds.
//
// Role:       Decide asks it for every candidate's reusable prefix; the server tells it what ran
//             and what each response says was reused.
// Ownership:  owns all it stores; borrows symbols for the length of a call.
// Threads:    Match and the gauges are const and may run at once; everything else needs the caller
//             to keep others out.
// Cost:       Match: O(prompt) at memcmp speed, no allocation. Insert: O(sequence) and O(log nodes)
//             for each node on its path.
// Invariants: bytes() is exact: it counts every tree node with its symbols at the allocator's
//             granularity, every table slot and vector capacity, and is at most byte_cap after each
//             call (with one exception: an index whose backends alone need more). Recency is the
//             order of the calls: the index knows no clock, so a clock that jumps cannot hurt.
// Example:
//   index.AddBackend(0, {.max_sequences = 1});           // llama-server, one slot
//   PrefixMatch m = index.Match(0, prompt);              // before: what would be reused
//   index.Complete(0, {.symbols = prompt_and_answer, .prompt_symbols = prompt.size(),
//                      .prompt_tokens = p, .predicted_tokens = m.reusable, .reported_tokens =
//                      285});
//
// Three shapes of cache are modelled.
// Slots (max_sequences > 0; llama-server without a host prompt cache): each slot holds one
// sequence; slot_cache.h has the rules. A llama-server with a number of slots and settings that it
// does not tell (llama_slots > 0): several rules are followed side by side, and those believed
// whose predictions came closest to its reports. LRU (neither; RadixAttention, paged blocks):
// tokens stay resident by recency within a capacity. What was used too long ago stays in the index
// as a ghost, and a prefix is believed only where the tokens used more recently (its LRU stack
// distance) leave room for it. The capacity is learned: reported hits beyond it raise it, misses
// within it lower it, wherever it started from.
//
// A reported reuse far below what both the prediction and the present state say, that neither the
// cache's capacity or rules nor the tokens of an answer explain, puts the sequence in doubt: beyond
// the reported length it no longer counts until a report confirms it, although the backend has just
// processed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "router/radix_tree.h"
#include "router/symbols.h"

namespace parallax::router {

// A backend's place in the configuration; stable while the process lives. A server that answers to
// several models with separate caches gets one id for each.
using BackendId = uint32_t;

struct CacheShape {
  int64_t max_sequences = 0;  // slots; 0: not limited by sequences
  int64_t llama_slots = 0;    // slots of a llama-server whose cache settings are to be found out
  int64_t max_tokens = 0;     // LRU capacity to start from; 0: unknown, believe all until a miss
  // Slots only: what a slot holds is of use only to a prompt that continues all of it, generated
  // part included (RKLLM: one conversation in the device's KV, kept or cleared as a whole).
  bool extension_only = false;
  double tokens_per_symbol = 1;  // 1 where symbols are token ids; about block_bytes / 4 for blocks
};

struct PrefixMatch {
  size_t held = 0;      // symbols of the prompt that the backend is believed to hold
  size_t reusable = 0;  // what it would report: min(held, prompt - 1), llama-server's rule; in
                        // whole blocks where its reports have so far been multiples of one
};

// What a finished request tells the index.
struct CacheReport {
  uint64_t run = 0;              // that was begun; 0: none was
  SymbolSpan symbols = {};       // prompt and generated, without the last generated token, whose
                                 // KV is never computed; kUnknownSymbol where an id is not known
  size_t prompt_symbols = 0;     // how many of them are the prompt
  int64_t prompt_tokens = 0;     // p as the backend counts it
  int64_t predicted_tokens = 0;  // reuse that the decision predicted
  int64_t reported_tokens = 0;   // timings.cache_n or usage.prompt_tokens_details.cached_tokens
};

enum class ReportVerdict : uint8_t {
  kConfirmed,  // as predicted (block symbols: to within two blocks)
  kMore,       // more was reused than predicted
  kStale,      // less than predicted, but no more than the present state says: others came between
  kCapacity,   // less, explained by the cache's capacity or rules, of which it was learned
  // Less, but the cache works: either from somewhere in an answer on, which was generated as other
  // tokens than those its text gives, or most of it: caches of models with a sliding window go back
  // to a checkpoint a few tokens before.
  kPart,
  kUnexplained,  // less, for no reason that the index knows: the sequence is in doubt
};

// Whether less was reused than the decision had counted on.
constexpr bool IsMisprediction(ReportVerdict verdict) {
  return verdict != ReportVerdict::kConfirmed && verdict != ReportVerdict::kMore;
}

struct CacheGauges {
  std::string_view rules = {};   // those believed now, for people
  int64_t bytes = 0;             // tree, tables and bookkeeping of this backend
  int64_t entries = 0;           // sequences that are no prefix of another
  int64_t symbols = 0;           // stored once for each shared prefix
  int64_t capacity_symbols = 0;  // LRU capacity believed now; 0: unknown
  int64_t reports = 0;
  int64_t mispredictions =
      0;             // kStale, kCapacity, kPart and kUnexplained: parallax_prefix_mispredict_total
  int64_t more = 0;  // kMore
  double hit_ratio = 0;  // reused / prompt tokens as reported, over about the last 20 reports
};

class PrefixIndex {
 public:
  static constexpr int kDistrustAfter = 4;
  using Run = uint64_t;

  struct Options {
    int64_t byte_cap = int64_t{64} << 20;
    double slot_similarity = 0.10;  // llama-server's slot_prompt_similarity
  };

  PrefixIndex();
  explicit PrefixIndex(const Options& options);
  ~PrefixIndex();
  PrefixIndex(PrefixIndex&&) noexcept;
  PrefixIndex& operator=(PrefixIndex&&) noexcept;

  // Adds an empty backend, or empties it and gives it a new shape.
  void AddBackend(BackendId backend, const CacheShape& shape);
  // Drops a backend and all that it held. Unknown ids are ignored here and below.
  void RemoveBackend(BackendId backend);
  // The backend restarted: its cache is empty; capacity and counters stay.
  void Clear(BackendId backend);

  // What `backend` would reuse of this prompt. Changes nothing.
  PrefixMatch Match(BackendId backend, SymbolSpan prompt) const;

  // A request is sent to the backend, which occupies a slot there until it leaves something
  // (Complete, Insert) or is given up (Abandon). Returns what Match said before. `run` is a number
  // of the caller's for it, below 2^63 and not 0. It may be left out: then its slot is chosen in
  // the end.
  PrefixMatch Begin(BackendId backend, SymbolSpan prompt, Run run);
  // Nobody knows what it left. Nothing where it has left something.
  void Abandon(BackendId backend, Run run);

  // The backend now holds `symbols`; the first `prompt_symbols` of them were the prompt. A run may
  // leave more than once, each time more than before.
  void Insert(BackendId backend, SymbolSpan symbols, size_t prompt_symbols, Run run = 0);

  // Compares a reported reuse with what was believed and corrects the index. Call it before the
  // Insert of the same request, or call Complete.
  ReportVerdict Report(BackendId backend, const CacheReport& report);

  // Report, then Insert (in doubt beyond the reported length where the verdict is kUnexplained).
  ReportVerdict Complete(BackendId backend, const CacheReport& report);

  int64_t bytes() const;
  int64_t entries() const;
  CacheGauges Gauges(BackendId backend) const;
  const Options& options() const { return options_; }

 private:
  struct Shadow;

  Shadow* Find(BackendId backend) const;
  // Stores `symbols`; beyond `believed` of them the sequence is in doubt.
  void Store(Shadow& shadow, SymbolSpan symbols, size_t prompt_symbols, size_t believed, Run run);
  void UsePath(Shadow& shadow, RadixTree::Node* end, size_t length, size_t believed);
  void EnforceCap();

  Options options_;
  std::map<BackendId, std::unique_ptr<Shadow>> shadows_;
  uint64_t uses_ =
      0;  // one for each use of a node or slot, over all backends: the order of recency
  uint64_t own_runs_ = 0;
};

}  // namespace parallax::router
