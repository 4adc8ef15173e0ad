// only:NAME (cpu-only, npu-only): everything goes to one backend. Baseline of seed B's evaluation.
#include "router/policy.h"

namespace parallax::router {

uint32_t RankOnly(const PolicyInput& input, std::span<PolicyRank> ranks) {
  return RankBySide(input, input.policy.only, /*other=*/"", ranks);
}

}  // namespace parallax::router
