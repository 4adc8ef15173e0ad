// Policies: which of the backends that could take a request should.
//
// Role:       Decide hands the candidates that passed every filter to one policy and takes the
//             best.
// Ownership:  borrows everything for the call.
// Threads:    pure.
// Cost:       O(candidates).
// Invariants: a policy only orders candidates: lower tier first, then lower score_ms; Decide breaks
//             ties. Only `only` excludes (Decide does it): nothing else ever gets its requests.
//             psr, psr-eff and prompt-only prefer the side that the table names, then the other
//             side, then any other backend. psr-eff asks the table with what would remain to
//             prefill on the short side: residency differs between backends, and the question that
//             the table answers is whether staying on the short side costs too much.
// Source:     design 4.2; papers/psr-pcar.txt, algorithm 1 and equations 6-10.
// Example:
//   PX_ASSIGN_OR_RETURN(Policy policy, ParsePolicy("psr-eff"));
//   policy.objective = Objective::kTtft;
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "router/latency_model.h"
#include "router/psr_table.h"

namespace parallax::router {

enum class PolicyKind : uint8_t { kOnly, kPromptOnly, kPsr, kPsrEff, kPcar, kExtended };
enum class Objective : uint8_t { kTotal, kTtft };

struct Policy {
  PolicyKind kind = PolicyKind::kExtended;
  std::string only = {};  // kOnly: the backend's name
  Objective objective = Objective::kTotal;
  Interpolation interpolation = Interpolation::kNextRow;  // psr and psr-eff
  // Cached prefixes shorter than this do not count for the choice (a system prompt that everybody
  // shares must not draw everybody to the backend that saw it first). 0: all count.
  int64_t min_match_bytes = 0;
  double tie_margin = 0.01;  // relative; scores this close are ties (pcar: only equal ones)
  // `extended`: each so manieth decision without a deadline, and with no more than half of its
  // prompt cached anywhere, goes to an idle backend whose model is still a prior, if the best one's
  // is not: a backend that a pessimistic prior keeps from all work would never be measured. 0:
  // never.
  int explore_every = 4;
};

// "only:NAME", "cpu-only" and "npu-only" (only:cpu, only:npu), "prompt-only", "psr", "psr-eff",
// "pcar", "extended"; the message of an error lists them.
Result<Policy> ParsePolicy(std::string_view name);
std::string Name(const Policy& policy);      // design 4.2's names; fixed backends as only:NAME
std::string_view Name(Objective objective);  // "total", "ttft"
std::optional<Objective> ParseObjective(std::string_view name);

// Models of one backend for the model that the request names.
struct BackendModels {
  LatencyModel extended;                   // fitted, online or prior: there always is one
  std::optional<LatencyModel> paper = {};  // frozen, for pcar
};

struct Models {
  std::vector<BackendModels> backends = {};  // one for each of Snapshot::backends, in its order
  std::optional<PsrTable> psr = {};
  std::optional<PromptOnlyRule> prompt_only = {};
};

// Whether `policy` has what it needs: a table, both of its sides among `backends`, the named
// backend, paper-form models. The server asks at start; Decide falls back and flags (below).
Result<void> CheckPolicy(const Policy& policy, const Models& models,
                         std::span<const std::string> backends);

// Bits that say how a policy came to its order; recorded in the decision.
enum PolicyNote : uint32_t {
  kNoteBetweenRows = 1,       // psr: g is not a row of the table; the next row at or above was used
  kNotePastLastRow = 2,       // psr: g is past the table; the last row was used
  kNoteInterpolated = 4,      // psr: threshold on the line between two rows
  kNoteFellBackToPsr = 8,     // pcar: no cache metadata
  kNoteFellBackToModel = 16,  // table or paper-form models missing: extended models were used
  kNoteOtherSide = 32,        // the backend that the rule names cannot take the request
};

// A candidate as policies see it.
struct PolicyCandidate {
  std::string_view name;
  Workload workload;    // with the cached prefix that counts for the choice
  double queue_ms = 0;  // until its prefill starts, and what neighbours add
  Prediction extended;
  std::optional<Prediction> paper = {};
  bool cache_known = true;  // its cache metadata are available for this request
};

struct PolicyRank {
  int tier = 0;         // lower is better
  double score_ms = 0;  // within a tier, lower is better
};

struct PolicyInput {
  const Policy& policy;
  const Models& models;
  std::span<const PolicyCandidate> candidates = {};

  const PolicyCandidate* Find(std::string_view name) const;
};

// Fills one rank for each candidate and returns the notes (PolicyNote bits). Dispatches on the
// kind.
uint32_t Rank(const PolicyInput& input, std::span<PolicyRank> ranks);

// The form that the policy predicts with.
ModelForm FormOf(PolicyKind kind);

// Milliseconds that a candidate is judged by: its wait and the raw total, or its wait and ttft.
double ScoreMs(Objective objective, double queue_ms, const Prediction& prediction);

// Scores by the extended model; tiers: `preferred` 0, `other` 1, the rest 2. Notes kNoteOtherSide
// where `preferred` is not there.
uint32_t RankBySide(const PolicyInput& input, std::string_view preferred, std::string_view other,
                    std::span<PolicyRank> ranks);

// One file each, policies/NAME.cc.
uint32_t RankOnly(const PolicyInput& input, std::span<PolicyRank> ranks);
uint32_t RankPromptOnly(const PolicyInput& input, std::span<PolicyRank> ranks);
uint32_t RankPsr(const PolicyInput& input, std::span<PolicyRank> ranks);
uint32_t RankPsrEff(const PolicyInput& input, std::span<PolicyRank> ranks);
uint32_t RankPcar(const PolicyInput& input, std::span<PolicyRank> ranks);
uint32_t RankExtended(const PolicyInput& input, std::span<PolicyRank> ranks);

}  // namespace parallax::router
