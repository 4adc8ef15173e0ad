#include "router/context_fit.h"

#include <algorithm>

namespace parallax::router {

std::string_view Name(ContextVerdict verdict) {
  switch (verdict) {
    case ContextVerdict::kFits:
      return "fits";
    case ContextVerdict::kTruncates:
      return "truncates";
    case ContextVerdict::kOverflow:
      return "overflow";
  }
  return "?";
}

ContextFit FitContext(int64_t prompt_tokens, int64_t max_new_tokens, int64_t context_tokens) {
  const int64_t p = std::max<int64_t>(prompt_tokens, 0);
  const int64_t g = std::max<int64_t>(max_new_tokens, 0);
  if (context_tokens <= 0) return {ContextVerdict::kFits, g};
  const int64_t room = context_tokens - p;
  if (room <= 0) return {ContextVerdict::kOverflow, 0};
  if (g > room) return {ContextVerdict::kTruncates, room};
  return {ContextVerdict::kFits, g};
}

}  // namespace parallax::router
