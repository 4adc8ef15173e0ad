// What one request asks of one backend, in the terms of the latency models.
//
// Role:       built by the router for every candidate; the only input of the latency models.
// Ownership:  a value.
// Threads:    pure.
// Cost:       a few multiplications.
// Invariants: made by MakeWorkload: no field negative, cached_tokens <= prompt_tokens, and `cache`
//             says kExact exactly where they are equal (and there is a prompt), kNone where nothing
//             is cached.
// Source:     design 4.1 and 4.2; papers/psr-pcar.txt, sections 3.2 and 3.5.
// Example:
//   Workload w = MakeWorkload(/*p=*/1024, /*g=*/32, /*p_cache=*/256);
//   w.Effective();      // 768 tokens to prefill
//   w.AttentionWork();  // 768 * (256 + 384)
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace parallax::router {

enum class CacheState : uint8_t { kNone, kPrefix, kExact };

// "none", "prefix", "exact".
std::string_view Name(CacheState state);

struct Workload {
  int64_t prompt_tokens = 0;   // p, after the chat template
  int64_t max_new_tokens = 0;  // g
  int64_t cached_tokens = 0;   // p_cache; equals p on an exact hit, although llama-server then
                               // still processes one token
  CacheState cache = CacheState::kNone;

  // p_eff, the tokens that remain to prefill.
  int64_t Effective() const { return std::max<int64_t>(prompt_tokens - cached_tokens, 0); }
  // A = p_eff (p_cache + p_eff / 2): pairs of tokens that the prefill's attention visits.
  double AttentionWork() const {
    const double p_eff = static_cast<double>(Effective());
    return p_eff * (static_cast<double>(cached_tokens) + p_eff / 2);
  }
  // D = g (p + g / 2): tokens of context that decoding reads.
  double DecodeWork() const {
    const double g = static_cast<double>(max_new_tokens);
    return g * (static_cast<double>(prompt_tokens) + g / 2);
  }

  bool operator==(const Workload&) const = default;
};

// Negative arguments count as 0, a p_cache above p as p.
constexpr Workload MakeWorkload(int64_t p, int64_t g, int64_t p_cache) {
  Workload w;
  w.prompt_tokens = std::max<int64_t>(p, 0);
  w.max_new_tokens = std::max<int64_t>(g, 0);
  w.cached_tokens = std::clamp<int64_t>(p_cache, 0, w.prompt_tokens);
  if (w.cached_tokens > 0) {
    w.cache = w.cached_tokens == w.prompt_tokens ? CacheState::kExact : CacheState::kPrefix;
  }
  return w;
}

}  // namespace parallax::router
