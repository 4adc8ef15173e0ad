#include "router/prefix_index.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "router/lru_capacity.h"
#include "router/recency_stack.h"
#include "router/slot_cache.h"

namespace parallax::router {
namespace {

using Node = RadixTree::Node;

// A tree's positions are 32 bits wide.
constexpr size_t kLongestSequence = size_t{1} << 30;
constexpr double kRatioRate = 0.05;  // of the running hit ratio
// Differing reports of reuse before a power of two that divides them all counts as the cache's
// block size: by chance the least one does so once in 8^4 times.
constexpr int kGranuleReports = 4;
constexpr size_t kLeastGranule = 8;
constexpr size_t kGreatestGranule = 512;

SymbolSpan Storable(SymbolSpan symbols) {
  return KnownPrefix(symbols.first(std::min(symbols.size(), kLongestSequence)));
}

// Runs that nobody began get numbers that callers do not use.
constexpr uint64_t kOwnRuns = uint64_t{1} << 63;
constexpr double kErrorRate = 0.1;  // of the running errors of rules
// So much of what was predicted says that the cache works: to doubt all that follows would be a
// larger error than the tokens that are missing.
constexpr double kMostOfIt = 0.75;

// The rules a llama-server may follow, the likeliest first.
std::vector<SlotCache::Rules> LlamaRules(size_t slots, double similarity) {
  SlotCache::Rules plain;  // --cache-ram 0, or from before there was one
  plain.slots = slots;
  plain.similarity = similarity;
  SlotCache::Rules parks = plain;  // --no-cache-idle-slots
  parks.parks = true;
  parks.name = "slots, host cache";
  SlotCache::Rules split = parks;  // -np N
  split.parks_idle = true;
  split.name = "slots, host cache with idle slots";
  SlotCache::Rules unified = split;  // all defaults: four slots that share one KV buffer
  unified.clears_idle = true;
  unified.name = "shared slots, host cache with idle slots";
  constexpr size_t kDefaultSlots = 4;
  if (slots == kDefaultSlots) return {unified, split, parks, plain};
  return {split, unified, parks, plain};
}

}  // namespace

struct PrefixIndex::Shadow {
  // A cache by one set of rules, and how well its predictions did.
  struct Slotted {
    SlotCache cache;
    double error = 0;  // running mean of |predicted - reported| / prompt
  };

  // What was known of a prompt before it was processed.
  struct Before {
    SlotCache::Run run = 0;
    size_t total = 0;  // symbols of it that were stored
    size_t believed = 0;
    size_t held = 0;
  };

  Shadow(const CacheShape& s, double similarity) : shape(s), slot_similarity(similarity) {
    Reset();
    if (!slotted()) {
      capacity = LruCapacity(static_cast<double>(std::max<int64_t>(s.max_tokens, 0)) /
                             s.tokens_per_symbol);
    }
  }

  // Nothing is held; what was learned of the cache stays.
  void Reset();
  bool slotted() const { return !caches.empty(); }
  const SlotCache& Believed() const;
  int64_t bytes() const;
  size_t Held(const RadixTree::Position& at, size_t prompt) const;
  // Compares what each cache of slots would have reused with what was. True where one other than
  // that believed until now said so much, or what was missing had been parked.
  bool LearnRules(const RadixTree::Position& at, const Before& before, size_t prompt,
                  size_t reported);
  // What was known of the prompt when it was begun; where it was not, what is known now.
  Before BeforeOf(SlotCache::Run run, const RadixTree::Position& at, size_t prompt) const;
  // What the backend reports where it holds so much: at most prompt - 1, in whole blocks.
  size_t Reusable(size_t held, size_t prompt) const;
  size_t Granule() const;
  // Whether the stored part of a prompt goes on behind its first `length` symbols with an answer's.
  static bool Generated(const RadixTree::Position& at, size_t length);
  void Release(Node* end);
  // Drops what nothing holds, from here towards the root.
  void Prune(Node* end);
  // It is no longer on its way; false where it was not.
  bool Ended(SlotCache::Run run);
  void RemoveNode(Node* leaf);
  Node* SplitAt(Node* node, size_t total);
  Node* Extend(Node* parent, SymbolSpan symbols);

  CacheShape shape;
  double slot_similarity;
  std::unique_ptr<RadixTree> tree;
  RecencyStack recency;
  LruCapacity capacity;
  std::vector<Slotted> caches;  // empty for an LRU cache
  std::vector<Before> begun;    // runs that have not left anything yet

  // Where symbols are tokens: the bits of all reported reuses, how many reports there were that
  // differed from the one before, and the last of them.
  size_t reuse_bits = 0;
  int granule_reports = 0;
  size_t last_reuse = 0;
  int unexplained_run = 0;  // in a row, without any reuse reported
  int64_t reports = 0;
  int64_t mispredictions = 0;
  int64_t more = 0;
  double prompt_mean = 0;  // running means of tokens, whose ratio is the hit ratio
  double reused_mean = 0;
};

// The map's node: links and colour before the pair.
int64_t PrefixIndex::Shadow::bytes() const {
  constexpr size_t kMapNode = 4 * sizeof(void*) + sizeof(std::pair<BackendId, void*>);
  int64_t cache_bytes =
      caches.capacity() == 0 ? 0 : AllocatedBytes(caches.capacity() * sizeof(Slotted));
  for (const Slotted& slotted : caches) cache_bytes += slotted.cache.bytes();
  if (begun.capacity() > 0) cache_bytes += AllocatedBytes(begun.capacity() * sizeof(Before));
  return AllocatedBytes(kMapNode) + AllocatedBytes(sizeof(Shadow)) +
         AllocatedBytes(sizeof(RadixTree)) + tree->bytes() + recency.bytes() + cache_bytes;
}

void PrefixIndex::Shadow::Reset() {
  std::vector<SlotCache::Rules> rules;
  if (shape.max_sequences > 0) {
    SlotCache::Rules plain;
    plain.slots = static_cast<size_t>(shape.max_sequences);
    plain.similarity = slot_similarity;
    plain.extension_only = shape.extension_only;
    rules = {plain};
  } else if (shape.llama_slots > 0) {
    rules = LlamaRules(static_cast<size_t>(shape.llama_slots), slot_similarity);
  }
  std::vector<Slotted> fresh;
  fresh.reserve(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    fresh.push_back({SlotCache(rules[i]), i < caches.size() ? caches[i].error : 0});
  }
  caches = std::move(fresh);
  begun = {};
  recency = {};
  tree = std::make_unique<RadixTree>();
}

const SlotCache& PrefixIndex::Shadow::Believed() const {
  return std::min_element(caches.begin(), caches.end(),
                          [](const Slotted& a, const Slotted& b) { return a.error < b.error; })
      ->cache;
}

size_t PrefixIndex::Shadow::Held(const RadixTree::Position& at, size_t prompt) const {
  if (at.believed == 0) return 0;
  if (slotted()) {
    const SlotCache& cache = Believed();
    return std::min(cache.Held(cache.Choose(at, prompt)), at.believed);
  }
  return capacity.Held(recency, {at.believed_node, at.believed});
}

PrefixIndex::Shadow::Before PrefixIndex::Shadow::BeforeOf(SlotCache::Run run,
                                                          const RadixTree::Position& at,
                                                          size_t prompt) const {
  for (const Before& before : begun) {
    if (run != 0 && before.run == run) return before;
  }
  return {0, at.total, at.believed, Held(at, prompt)};
}

bool PrefixIndex::Shadow::LearnRules(const RadixTree::Position& at, const Before& before,
                                     size_t prompt, size_t reported) {
  const SlotCache* believed = &Believed();
  bool explained = false;
  std::vector<Node*> released;
  for (Slotted& slotted : caches) {
    SlotCache& cache = slotted.cache;
    std::optional<SlotCache::Belief> begun_with;
    if (before.run != 0) begun_with = cache.BeliefOf(before.run);
    const SlotCache::Belief belief =
        begun_with ? *begun_with : cache.BeliefOf(cache.Choose(at, prompt));
    const size_t predicted = Reusable(std::min(belief.held, before.believed), prompt);
    const double off = std::abs(static_cast<double>(predicted) - static_cast<double>(reported)) /
                       static_cast<double>(std::max<size_t>(prompt, 1));
    slotted.error += kErrorRate * (off - slotted.error);
    if (predicted == reported) {
      explained |= &cache != believed;
      cache.Confirmed();
    } else if (2 * reported < predicted && belief.loaded != 0) {
      explained |= &cache == believed;
      cache.Missed(belief.loaded, released);
    }
  }
  for (Node* end : released) Release(end);
  return explained;
}

size_t PrefixIndex::Shadow::Granule() const {
  if (granule_reports < kGranuleReports) return 1;
  const size_t power = std::min(reuse_bits & (~reuse_bits + 1), kGreatestGranule);
  return power < kLeastGranule ? 1 : power;
}

size_t PrefixIndex::Shadow::Reusable(size_t held, size_t prompt) const {
  const size_t most = std::min(held, prompt > 0 ? prompt - 1 : 0);
  return most - most % Granule();
}

bool PrefixIndex::Shadow::Ended(SlotCache::Run run) {
  return std::erase_if(begun, [&](const Before& before) { return before.run == run; }) > 0;
}

bool PrefixIndex::Shadow::Generated(const RadixTree::Position& at, size_t length) {
  const Node* node = at.node;
  while (node->parent != nullptr && node->begin() > length) node = node->parent;
  return length < at.total && node->generated;
}

// Nothing holds the sequence that ended at `end` any more: drop what only it needed.
void PrefixIndex::Shadow::Release(Node* end) {
  if (end == tree->root()) return;
  --end->holders;
  Prune(end);
}

void PrefixIndex::Shadow::Prune(Node* end) {
  while (end != tree->root() && end->holders == 0 && end->children == 0) {
    recency.Remove(end);
    end = tree->RemoveLeaf(end);
  }
}

void PrefixIndex::Shadow::RemoveNode(Node* leaf) {
  for (Slotted& slotted : caches) slotted.cache.RemoveNode(leaf);
  recency.Remove(leaf);
  tree->RemoveLeaf(leaf);
}

// The node that ends exactly `total` symbols from the root, on the path to `node`'s end. A new node
// stands wrongly in the order of use until the path is used, which must follow at once.
Node* PrefixIndex::Shadow::SplitAt(Node* node, size_t total) {
  while (node->begin() >= total && node != tree->root()) node = node->parent;
  if (node->end == total) return node;
  const uint32_t before = node->length;
  Node* upper = tree->Split(node, static_cast<uint32_t>(total) - node->begin());
  recency.Resized(node, before);
  recency.Use(upper);
  return upper;
}

// A new leaf; what SplitAt says of new nodes holds for it too.
Node* PrefixIndex::Shadow::Extend(Node* parent, SymbolSpan symbols) {
  Node* leaf = tree->Extend(parent, symbols);
  recency.Use(leaf);
  return leaf;
}

PrefixIndex::PrefixIndex() : PrefixIndex(Options{}) {}
PrefixIndex::PrefixIndex(const Options& options) : options_(options) {}
PrefixIndex::~PrefixIndex() = default;
PrefixIndex::PrefixIndex(PrefixIndex&&) noexcept = default;
PrefixIndex& PrefixIndex::operator=(PrefixIndex&&) noexcept = default;

PrefixIndex::Shadow* PrefixIndex::Find(BackendId backend) const {
  const auto it = shadows_.find(backend);
  return it == shadows_.end() ? nullptr : it->second.get();
}

void PrefixIndex::AddBackend(BackendId backend, const CacheShape& shape) {
  CacheShape sane = shape;
  if (!(sane.tokens_per_symbol > 0)) sane.tokens_per_symbol = 1;
  shadows_[backend] = std::make_unique<Shadow>(sane, options_.slot_similarity);
  EnforceCap();
}

void PrefixIndex::RemoveBackend(BackendId backend) { shadows_.erase(backend); }

void PrefixIndex::Clear(BackendId backend) {
  Shadow* shadow = Find(backend);
  if (shadow == nullptr) return;
  shadow->Reset();
  shadow->unexplained_run = 0;
  shadow->reuse_bits = 0;
  shadow->granule_reports = 0;
}

PrefixMatch PrefixIndex::Match(BackendId backend, SymbolSpan prompt) const {
  const Shadow* shadow = Find(backend);
  if (shadow == nullptr || prompt.empty()) return {};
  const RadixTree::Position at = shadow->tree->Find(prompt);
  const size_t held = shadow->Held(at, prompt.size());
  return {held, shadow->Reusable(held, prompt.size())};
}

// A sequence of `length` symbols, stored down to `end`, was used; beyond `believed` it is in doubt.
void PrefixIndex::UsePath(Shadow& shadow, Node* end, size_t length, size_t believed) {
  if (believed > 0 && believed < end->end) shadow.SplitAt(end, believed);
  // From the end to the root, so that ancestors are newer than descendants.
  for (Node* node = end; node != shadow.tree->root(); node = node->parent) {
    node->doubted = node->begin() >= believed;
    shadow.recency.Use(node);
    node->use = ++uses_;
    node->tail = static_cast<uint32_t>(length - node->end);
  }
}

PrefixMatch PrefixIndex::Begin(BackendId backend, SymbolSpan prompt, Run run) {
  Shadow* shadow = Find(backend);
  if (shadow == nullptr || prompt.empty()) return {};
  RadixTree& tree = *shadow->tree;
  const RadixTree::Position at = tree.Find(prompt);
  const size_t held = shadow->Held(at, prompt.size());
  const PrefixMatch match{held, shadow->Reusable(held, prompt.size())};
  if (run == 0 || !shadow->slotted()) return match;

  std::vector<SlotCache::Choice> choices;
  for (const auto& slotted : shadow->caches) {
    choices.push_back(slotted.cache.Choose(at, prompt.size()));
  }
  const SymbolSpan known = Storable(prompt);
  Node* end = at.total == 0 ? tree.root() : shadow->SplitAt(at.node, at.total);
  if (at.total < known.size()) end = shadow->Extend(end, known.subspan(at.total));
  const bool doubtful =
      at.believed < at.total || shadow->unexplained_run >= PrefixIndex::kDistrustAfter;
  UsePath(*shadow, end, prompt.size(), doubtful ? at.believed : prompt.size());

  std::vector<Node*> released;
  for (size_t i = 0; i < choices.size(); ++i) {
    SlotCache& cache = shadow->caches[i].cache;
    if (cache.HasIdleSlot()) cache.Begin(choices[i], run, end, prompt.size(), released);
  }
  shadow->begun.push_back({run, at.total, at.believed, held});
  for (Node* gone : released) shadow->Release(gone);
  shadow->Prune(end);
  EnforceCap();
  return match;
}

void PrefixIndex::Abandon(BackendId backend, Run run) {
  Shadow* shadow = Find(backend);
  if (shadow == nullptr || run == 0) return;
  std::vector<Node*> released;
  for (auto& slotted : shadow->caches) slotted.cache.Abandon(run, released);
  for (Node* gone : released) shadow->Release(gone);
  shadow->Ended(run);
}

void PrefixIndex::Insert(BackendId backend, SymbolSpan symbols, size_t prompt_symbols, Run run) {
  Shadow* shadow = Find(backend);
  if (shadow == nullptr) return;
  Store(*shadow, symbols, prompt_symbols, symbols.size(), run);
}

void PrefixIndex::Store(Shadow& shadow, SymbolSpan symbols, size_t prompt_symbols, size_t believed,
                        Run run) {
  const SymbolSpan known = Storable(symbols);
  const SymbolSpan prompt = known.first(std::min(known.size(), prompt_symbols));
  RadixTree& tree = *shadow.tree;

  // A run that was begun has its place; one that has left something already gets no other.
  const bool unplaced = run == 0 || shadow.Ended(run);
  if (run == 0) run = kOwnRuns | ++own_runs_;
  std::vector<SlotCache::Choice> choices;
  if (unplaced) {
    const RadixTree::Position at = tree.Find(prompt);
    for (const auto& slotted : shadow.caches) {
      choices.push_back(slotted.cache.Choose(at, prompt_symbols));
    }
  }
  const RadixTree::Position at = tree.Find(known);
  Node* end = at.total == 0 ? tree.root() : shadow.SplitAt(at.node, at.total);
  for (Node* node = end; node != tree.root(); node = node->parent) {
    node->generated &= node->begin() >= prompt.size();
  }
  if (at.total < prompt.size()) end = shadow.Extend(end, prompt.subspan(at.total));
  if (const size_t stored = std::max(at.total, prompt.size()); stored < known.size()) {
    end = shadow.Extend(end, known.subspan(stored));
    end->generated = true;
  }
  UsePath(shadow, end, std::min(symbols.size(), kLongestSequence), believed);
  shadow.capacity.Processed(symbols.size());

  std::vector<Node*> released;
  for (size_t i = 0; i < shadow.caches.size(); ++i) {
    SlotCache& cache = shadow.caches[i].cache;
    if (cache.Finish(run, end, symbols.size(), ++uses_, released) || !unplaced) continue;
    cache.Begin(choices[i], run, end, symbols.size(), released);
    cache.Finish(run, end, symbols.size(), uses_, released);
  }
  for (Node* gone : released) shadow.Release(gone);
  if (shadow.slotted()) shadow.Prune(end);
  EnforceCap();
}

ReportVerdict PrefixIndex::Report(BackendId backend, const CacheReport& report) {
  Shadow* shadow = Find(backend);
  if (shadow == nullptr || report.prompt_tokens <= 0) return ReportVerdict::kConfirmed;
  const size_t size = std::min(report.prompt_symbols, report.symbols.size());
  const SymbolSpan prompt = report.symbols.first(size);
  const double tokens = static_cast<double>(report.prompt_tokens);
  const double reported = std::clamp(static_cast<double>(report.reported_tokens), 0.0, tokens);
  const double predicted = static_cast<double>(report.predicted_tokens);

  ++shadow->reports;
  const double rate = std::max(kRatioRate, 1.0 / static_cast<double>(shadow->reports));
  shadow->prompt_mean += rate * (tokens - shadow->prompt_mean);
  shadow->reused_mean += rate * (reported - shadow->reused_mean);

  // Symbols that are not tokens end somewhere inside a block on both sides.
  const bool exact = size == static_cast<size_t>(report.prompt_tokens);
  const double per_symbol = size == 0 ? 0 : tokens / static_cast<double>(size);
  const double tolerance = exact ? 0 : std::ceil(2 * per_symbol);
  const size_t reported_symbols =
      size == 0 ? 0 : static_cast<size_t>(std::ceil(reported / per_symbol));

  if (exact && reported_symbols > 0 && reported_symbols != shadow->last_reuse) {
    shadow->reuse_bits |= reported_symbols;
    shadow->last_reuse = reported_symbols;
    ++shadow->granule_reports;
  }

  RadixTree::Position at = shadow->tree->Find(prompt);
  const Shadow::Before before = shadow->BeforeOf(report.run, at, size);
  const double now = per_symbol * static_cast<double>(shadow->Reusable(before.held, size));
  bool explained = false;
  if (shadow->slotted()) {
    explained = shadow->LearnRules(at, before, size, reported_symbols);
    at = shadow->tree->Find(prompt);  // what was given up may have been a part of it
  } else {
    const size_t reusable = shadow->Reusable(at.total, size);
    const bool all = reported + tolerance >= per_symbol * static_cast<double>(reusable);
    explained = shadow->capacity.Learn(shadow->recency, {at.node, at.total},
                                       all ? reusable : reported_symbols, reusable, size,
                                       shadow->Granule());
  }
  if (reported > 0) shadow->unexplained_run = 0;

  if (reported + tolerance >= predicted) {
    if (reported <= predicted + tolerance) return ReportVerdict::kConfirmed;
    ++shadow->more;
    return ReportVerdict::kMore;
  }
  ++shadow->mispredictions;
  if (reported + tolerance >= now) return ReportVerdict::kStale;
  if (explained) return ReportVerdict::kCapacity;
  if (shadow->Generated(at, reported_symbols) || reported >= kMostOfIt * now) {
    return ReportVerdict::kPart;
  }
  if (reported == 0) ++shadow->unexplained_run;
  if (at.total > 0) {
    UsePath(*shadow, shadow->SplitAt(at.node, at.total), size, reported_symbols);
  }
  return ReportVerdict::kUnexplained;
}

ReportVerdict PrefixIndex::Complete(BackendId backend, const CacheReport& report) {
  Shadow* shadow = Find(backend);
  if (shadow == nullptr) return ReportVerdict::kConfirmed;
  const size_t size = std::min(report.prompt_symbols, report.symbols.size());
  const SymbolSpan prompt = report.symbols.first(size);
  const Shadow::Before before = shadow->BeforeOf(report.run, shadow->tree->Find(prompt), size);
  const ReportVerdict verdict = Report(backend, report);

  size_t believed = report.symbols.size();
  if (report.prompt_tokens > 0 && report.reported_tokens < report.prompt_tokens) {
    const double per_symbol = static_cast<double>(size) / static_cast<double>(report.prompt_tokens);
    const size_t reported = static_cast<size_t>(
        std::ceil(per_symbol * static_cast<double>(std::max<int64_t>(report.reported_tokens, 0))));
    // A sequence in doubt stays so until its doubted part is reported as reused.
    const bool still_in_doubt = before.believed < before.total && reported <= before.believed + 2 &&
                                shadow->Reusable(before.total, size) > reported &&
                                verdict != ReportVerdict::kCapacity;
    if (verdict == ReportVerdict::kUnexplained || still_in_doubt ||
        shadow->unexplained_run >= kDistrustAfter) {
      believed = reported;
    }
  }
  Store(*shadow, report.symbols, report.prompt_symbols, believed, report.run);
  return verdict;
}

// Evicts the least recently used leaf of all backends until the cap holds.
void PrefixIndex::EnforceCap() {
  int64_t total = bytes();
  while (total > options_.byte_cap) {
    Shadow* victim = nullptr;
    for (const auto& [id, shadow] : shadows_) {
      const Node* oldest = shadow->recency.oldest();
      if (oldest == nullptr) continue;
      if (victim == nullptr || oldest->use < victim->recency.oldest()->use) victim = shadow.get();
    }
    if (victim == nullptr) return;
    total -= victim->bytes();
    victim->RemoveNode(victim->recency.oldest());
    total += victim->bytes();
  }
}

int64_t PrefixIndex::bytes() const {
  int64_t sum = 0;
  for (const auto& [id, shadow] : shadows_) sum += shadow->bytes();
  return sum;
}

int64_t PrefixIndex::entries() const {
  int64_t sum = 0;
  for (const auto& [id, shadow] : shadows_) sum += shadow->tree->leaves();
  return sum;
}

CacheGauges PrefixIndex::Gauges(BackendId backend) const {
  CacheGauges gauges;
  const Shadow* shadow = Find(backend);
  if (shadow == nullptr) return gauges;
  gauges.bytes = shadow->bytes();
  gauges.entries = shadow->tree->leaves();
  gauges.symbols = shadow->tree->symbols();
  gauges.capacity_symbols = shadow->slotted() ? 0 : shadow->capacity.symbols();
  gauges.reports = shadow->reports;
  gauges.mispredictions = shadow->mispredictions;
  gauges.more = shadow->more;
  gauges.rules = shadow->slotted() ? shadow->Believed().rules().name : "LRU";
  gauges.hit_ratio = shadow->prompt_mean > 0 ? shadow->reused_mean / shadow->prompt_mean : 0;
  return gauges;
}

}  // namespace parallax::router
