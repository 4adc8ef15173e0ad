// pcar: the lowest latency by each backend's frozen linear model (equation 8). Without cache
// metadata for every backend it is psr. Source: papers/psr-pcar.txt, section 3.5, algorithm 1.
#include <algorithm>

#include "router/policy.h"

namespace parallax::router {

uint32_t RankPcar(const PolicyInput& input, std::span<PolicyRank> ranks) {
  const auto candidates = input.candidates;
  if (!std::all_of(candidates.begin(), candidates.end(),
                   [](const PolicyCandidate& c) { return c.cache_known; })) {
    return RankPsr(input, ranks) | uint32_t{kNoteFellBackToPsr};
  }
  if (!std::all_of(candidates.begin(), candidates.end(),
                   [](const PolicyCandidate& c) { return c.paper.has_value(); })) {
    return RankExtended(input, ranks) | uint32_t{kNoteFellBackToModel};
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    ranks[i] = {0, ScoreMs(input.policy.objective, candidates[i].queue_ms, *candidates[i].paper)};
  }
  return 0;
}

}  // namespace parallax::router
