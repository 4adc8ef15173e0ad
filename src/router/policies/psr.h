// The look-up that psr and psr-eff share: the same frozen table, asked with p or with p_eff.
//
// Role:       called by the two policies.
// Ownership:  borrows for the call.
// Threads:    pure.
#pragma once

#include "router/policy.h"

namespace parallax::router {

enum class PromptMeasure : uint8_t { kWhole, kRemaining };

uint32_t RankByTable(const PolicyInput& input, PromptMeasure measure, std::span<PolicyRank> ranks);

}  // namespace parallax::router
