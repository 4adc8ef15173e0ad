// Which backends' contexts can hold a request, and what happens where none can.
//
// Role:       first filter of Decide.
// Ownership:  values.
// Threads:    pure.
// Cost:       O(backends).
// Invariants: with context c, prompt p, budget g: p >= c never fits (llama-server answers 400);
//             p < c < p + g is cut short by the backend (llama-server generates c - p tokens and
//             says truncated). Where the client asked for g, a backend that would cut it short is
//             used only if no other usable backend holds all of it. Where g is the server's
//             default, cutting it short is no loss to anybody, so such a backend competes as an
//             equal, with g = c - p in its prediction.
// Example:
//   ContextFit fit = FitContext(/*p=*/5000, /*g=*/64, /*context=*/4096);   // kOverflow
#pragma once

#include <cstdint>
#include <string_view>

namespace parallax::router {

enum class ContextVerdict : uint8_t { kFits, kTruncates, kOverflow };
std::string_view Name(ContextVerdict verdict);  // "fits", "truncates", "overflow"

struct ContextFit {
  ContextVerdict verdict = ContextVerdict::kFits;
  int64_t max_new_tokens = 0;  // g, or what remains of it here
};

// `context_tokens` 0 means unknown: fits.
ContextFit FitContext(int64_t prompt_tokens, int64_t max_new_tokens, int64_t context_tokens);

}  // namespace parallax::router
