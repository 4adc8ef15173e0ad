// Decide on a large prompt and a large index: time at the median and at the 99th percentile.
//
//   build/release/decide_bench [--benchmark_filter=...]
// The bar: p99 under 20 us for a 10,000-token prompt, 10,000 entries, 4 backends. Rows differ in
// how much of the prompt the backends hold: comparing what is held is most of the work. `memcmp` is
// the floor: the same bytes compared and nothing else. A decision for the wrong backend fails its
// row.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "router/router.h"

namespace parallax::bench {
namespace {

using namespace router;  // NOLINT: a program of its own

constexpr size_t kBackends = 4;
constexpr size_t kEntries = 10'000;  // and the prompts
constexpr size_t kPromptTokens = 10'000;
constexpr size_t kPrompts =
    64;  // in turn, so that the last level of cache holds no prompt for long
constexpr size_t kSystemTokens = 500;

using Tokens = std::vector<Symbol>;

struct World {
  Snapshot snapshot;
  Models models;
  PrefixIndex index{{.byte_cap = int64_t{2} << 30}};
  std::vector<Tokens> prompts;
};

// `held[b]` tokens of every prompt are on backend b; the rest of the entries are short
// conversations.
World Build(const std::vector<size_t>& held) {
  World w;
  std::mt19937 random(1);
  const auto text = [&](size_t n) {
    Tokens t(n);
    for (Symbol& s : t) s = static_cast<Symbol>(random() % 150'000);
    return t;
  };
  const Tokens system = text(kSystemTokens);
  for (size_t i = 0; i < kPrompts; ++i) {
    Tokens prompt = system;
    const Tokens rest = text(kPromptTokens - kSystemTokens);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    w.prompts.push_back(std::move(prompt));
  }
  for (size_t b = 0; b < kBackends; ++b) {
    BackendSnapshot backend;
    backend.id = static_cast<BackendId>(b);
    backend.name = "backend-" + std::to_string(b);
    backend.context_tokens = 32'768;
    backend.slots = 4;
    backend.models = {"other", "model"};
    backend.running.assign(3, {.prefill_ms = 100, .decode_ms = 900});
    backend.queued.assign(2, {.prefill_ms = 200, .decode_ms = 700});
    w.snapshot.backends.push_back(backend);
    LatencyModel model;
    model.beta = {10, 2.0 + static_cast<double>(b), 0.001, 20, 0.002, 0};
    model.source = ModelSource::kFitted;
    model.p = model.g = model.p_cache = {0, 100'000};
    w.models.backends.push_back({.extended = model});
    w.index.AddBackend(backend.id, {});
    for (size_t i = 0; i < kEntries / kBackends; ++i) {
      Tokens entry = system;
      const Tokens rest = text(100 + random() % 1000);
      entry.insert(entry.end(), rest.begin(), rest.end());
      w.index.Insert(backend.id, entry, entry.size());
    }
    for (const Tokens& prompt : w.prompts) {
      // In four turns, as a conversation grows.
      for (size_t turn = 1; turn <= 4; ++turn) {
        w.index.Insert(backend.id, SymbolSpan(prompt).first(held[b] * turn / 4), 1);
      }
    }
  }
  return w;
}

void Percentiles(benchmark::State& state, std::vector<double>& us) {
  if (us.empty()) return;
  std::sort(us.begin(), us.end());
  state.counters["p50_us"] = us[us.size() / 2];
  state.counters["p99_us"] = us[us.size() * 99 / 100];
}

void Decisions(benchmark::State& state, const std::vector<size_t>& held) {
  const World w = Build(held);
  TieState ties;
  const Policy policy;
  std::vector<double> us;
  const auto best = static_cast<size_t>(std::max_element(held.begin(), held.end()) - held.begin());
  size_t turn = 0;
  for (auto _ : state) {
    const Tokens& prompt = w.prompts[turn++ % kPrompts];
    const std::vector<BackendPrompt> prompts(
        kBackends, {.tokens = static_cast<int64_t>(prompt.size()), .symbols = prompt});
    const RouteRequest request{
        .id = "request-1", .model = "model", .prompts = prompts, .max_new_tokens = 128};
    const auto start = std::chrono::steady_clock::now();
    const Decision d = Decide(request, w.snapshot, w.index, w.models, policy, ties);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    us.push_back(took.count());
    if (d.chosen != best || d.candidates[best].workload.cached_tokens <
                                static_cast<int64_t>(std::min(held[best], prompt.size()))) {
      state.SkipWithError("wrong backend");
      break;
    }
  }
  state.counters["entries"] = static_cast<double>(w.index.entries());
  Percentiles(state, us);
}

// What four comparisons of a prompt cost at least.
void Floor(benchmark::State& state) {
  std::vector<Tokens> asked(kPrompts, Tokens(kPromptTokens)), stored(kPrompts * kBackends);
  for (size_t i = 0; i < kPrompts; ++i) {
    for (size_t k = 0; k < kPromptTokens; ++k) asked[i][k] = static_cast<Symbol>(i * 31 + k);
    for (size_t b = 0; b < kBackends; ++b) stored[i * kBackends + b] = asked[i];
  }
  std::vector<double> us;
  size_t turn = 0;
  for (auto _ : state) {
    const size_t i = turn++ % kPrompts;
    const auto start = std::chrono::steady_clock::now();
    int different = 0;
    for (size_t b = 0; b < kBackends; ++b) {
      different |= std::memcmp(asked[i].data(), stored[i * kBackends + b].data(),
                               kPromptTokens * sizeof(Symbol));
    }
    benchmark::DoNotOptimize(different);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    us.push_back(took.count());
  }
  Percentiles(state, us);
}

BENCHMARK_CAPTURE(Decisions, held_by_one, std::vector<size_t>{10'000, 500, 500, 500});
BENCHMARK_CAPTURE(Decisions, held_by_all, std::vector<size_t>{10'000, 9'990, 9'990, 9'990});
BENCHMARK_CAPTURE(Decisions, held_by_none, std::vector<size_t>{500, 500, 500, 500});
BENCHMARK(Floor)->Name("memcmp/held_by_all");

}  // namespace
}  // namespace parallax::bench

BENCHMARK_MAIN();
