// psr-eff: psr's frozen table, asked with what remains to prefill after cache reuse.
// Source: papers/psr-pcar.txt, section 4.1 (PSR(eff)).
#include "router/policies/psr.h"

namespace parallax::router {

uint32_t RankPsrEff(const PolicyInput& input, std::span<PolicyRank> ranks) {
  return RankByTable(input, PromptMeasure::kRemaining, ranks);
}

}  // namespace parallax::router
