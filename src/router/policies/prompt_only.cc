// prompt-only: one threshold on the prompt's length, whatever is to be generated. Baseline of seed
// B, section 4.3.
#include "router/policy.h"

namespace parallax::router {

uint32_t RankPromptOnly(const PolicyInput& input, std::span<PolicyRank> ranks) {
  const std::optional<PromptOnlyRule>& rule = input.models.prompt_only;
  if (!rule || input.candidates.empty()) {
    return RankExtended(input, ranks) | uint32_t{kNoteFellBackToModel};
  }
  const PolicyCandidate* at = input.Find(rule->short_side);
  if (at == nullptr) at = &input.candidates.front();
  const bool is_long = at->workload.prompt_tokens >= rule->threshold;
  return is_long ? RankBySide(input, rule->long_side, rule->short_side, ranks)
                 : RankBySide(input, rule->short_side, rule->long_side, ranks);
}

}  // namespace parallax::router
