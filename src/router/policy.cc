#include "router/policy.h"

#include <algorithm>

namespace parallax::router {
namespace {

struct Named {
  std::string_view name;
  PolicyKind kind;
};
constexpr Named kNames[] = {
    {"prompt-only", PolicyKind::kPromptOnly}, {"psr", PolicyKind::kPsr},
    {"psr-eff", PolicyKind::kPsrEff},         {"pcar", PolicyKind::kPcar},
    {"extended", PolicyKind::kExtended},
};
constexpr std::string_view kOnlyPrefix = "only:";

}  // namespace

Result<Policy> ParsePolicy(std::string_view name) {
  Policy policy;
  for (const Named& n : kNames) {
    if (n.name == name) {
      policy.kind = n.kind;
      return policy;
    }
  }
  if (name == "cpu-only") name = "only:cpu";
  if (name == "npu-only") name = "only:npu";
  if (name.starts_with(kOnlyPrefix) && name.size() > kOnlyPrefix.size()) {
    policy.kind = PolicyKind::kOnly;
    policy.only = name.substr(kOnlyPrefix.size());
    return policy;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "no policy '{}'; there are only:NAME, cpu-only, npu-only, prompt-only, psr, "
                   "psr-eff, pcar, extended",
                   name);
}

std::string Name(const Policy& policy) {
  if (policy.kind == PolicyKind::kOnly) return std::string(kOnlyPrefix) + policy.only;
  for (const Named& n : kNames) {
    if (n.kind == policy.kind) return std::string(n.name);
  }
  return "?";
}

std::string_view Name(Objective objective) {
  return objective == Objective::kTotal ? "total" : "ttft";
}

std::optional<Objective> ParseObjective(std::string_view name) {
  if (name == "total") return Objective::kTotal;
  if (name == "ttft") return Objective::kTtft;
  return std::nullopt;
}

Result<void> CheckPolicy(const Policy& policy, const Models& models,
                         std::span<const std::string> backends) {
  const auto known = [&](const std::string& name) -> Result<void> {
    if (std::find(backends.begin(), backends.end(), name) != backends.end()) return {};
    return MakeError(ErrorCode::kInvalidArgument, "policy {}: no backend '{}'", Name(policy), name);
  };
  switch (policy.kind) {
    case PolicyKind::kOnly:
      return known(policy.only);
    case PolicyKind::kPromptOnly:
      if (!models.prompt_only) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "policy prompt-only: the model file has no prompt_only threshold");
      }
      PX_RETURN_IF_ERROR(known(models.prompt_only->long_side));
      return known(models.prompt_only->short_side);
    case PolicyKind::kPsr:
    case PolicyKind::kPsrEff:
      if (!models.psr || models.psr->rows.empty()) {
        return MakeError(ErrorCode::kInvalidArgument, "policy {}: the model file has no psr table",
                         Name(policy));
      }
      PX_RETURN_IF_ERROR(known(models.psr->long_side));
      return known(models.psr->short_side);
    case PolicyKind::kPcar:
      for (size_t i = 0; i < models.backends.size(); ++i) {
        if (!models.backends[i].paper) {
          return MakeError(ErrorCode::kInvalidArgument,
                           "policy pcar: the model file has no paper-form model of backend '{}'",
                           i < backends.size() ? backends[i] : "?");
        }
      }
      return {};
    case PolicyKind::kExtended:
      return {};
  }
  return {};
}

const PolicyCandidate* PolicyInput::Find(std::string_view name) const {
  for (const PolicyCandidate& candidate : candidates) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

ModelForm FormOf(PolicyKind kind) {
  return kind == PolicyKind::kPcar ? ModelForm::kPaper : ModelForm::kExtended;
}

double ScoreMs(Objective objective, double queue_ms, const Prediction& prediction) {
  return queue_ms + (objective == Objective::kTotal ? prediction.raw_total_ms : prediction.ttft_ms);
}

uint32_t RankBySide(const PolicyInput& input, std::string_view preferred, std::string_view other,
                    std::span<PolicyRank> ranks) {
  bool there = false;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const PolicyCandidate& c = input.candidates[i];
    ranks[i].tier = c.name == preferred ? 0 : c.name == other ? 1 : 2;
    ranks[i].score_ms = ScoreMs(input.policy.objective, c.queue_ms, c.extended);
    there = there || c.name == preferred;
  }
  return there ? 0u : uint32_t{kNoteOtherSide};
}

uint32_t Rank(const PolicyInput& input, std::span<PolicyRank> ranks) {
  switch (input.policy.kind) {
    case PolicyKind::kOnly:
      return RankOnly(input, ranks);
    case PolicyKind::kPromptOnly:
      return RankPromptOnly(input, ranks);
    case PolicyKind::kPsr:
      return RankPsr(input, ranks);
    case PolicyKind::kPsrEff:
      return RankPsrEff(input, ranks);
    case PolicyKind::kPcar:
      return RankPcar(input, ranks);
    case PolicyKind::kExtended:
      return RankExtended(input, ranks);
  }
  return 0;
}

}  // namespace parallax::router
