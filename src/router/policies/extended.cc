// extended: the lowest latency by each backend's extended model (design 4.2), wait included.
#include "router/policy.h"

namespace parallax::router {

uint32_t RankExtended(const PolicyInput& input, std::span<PolicyRank> ranks) {
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const PolicyCandidate& c = input.candidates[i];
    ranks[i] = {0, ScoreMs(input.policy.objective, c.queue_ms, c.extended)};
  }
  return 0;
}

}  // namespace parallax::router
