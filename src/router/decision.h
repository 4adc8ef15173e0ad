// Decision: everything about one routing decision, and later what came of it.
//
// Role:       made by Decide; shown by /v1/decisions/ID and the status page, appended to the
//             decisions file, read back by replay.
// Ownership:  a value; owns its strings.
// Threads:    a value.
// Cost:       ToJson: tens of microseconds; not on the path of a request.
// Invariants: candidates are in the order of the snapshot. FromJson(ToJson(d)) equals d, but for
//             infinities, which are written as null. FromJson never fails but by Result, whatever
//             the bytes; unknown keys are ignored, so newer files can be read.
// Example:
//   Decision d = Decide(...);
//   d.outcome.total_ms = 812;
//   file << ToJson(d) << '\n';
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "router/context_fit.h"
#include "router/policy.h"
#include "router/snapshot.h"

namespace parallax::router {

enum class DecisionStatus : uint8_t {
  kRouted,
  kUnknownModel,  // no backend answers to that name (404)
  kUnavailable,   // those that do, or the pinned one, are down, draining or behind a breaker (503)
  kContextOverflow,  // no context holds the prompt (400): n_prompt_tokens, n_ctx
  kQueueFull,        // every backend that fits has a full queue (429): retry_after_s
  kDeadline,         // no backend is predicted to answer in time (503): best_total_ms
};
std::string_view Name(DecisionStatus status);  // "routed", "unknown-model", ...

// Why a backend was no candidate.
enum class Exclusion : uint8_t {
  kNone,
  kModel,   // does not answer to the model's name
  kPinned,  // another backend is pinned
  kPolicy,  // policy only:NAME names another
  kDown,
  kBreakerOpen,
  kDraining,
  kContext,       // cannot hold the prompt: need_tokens, have_tokens
  kTruncates,     // would cut the answer short, and another backend does not
  kSmallContext,  // smaller than the client asked for, and another backend's is not
  kQueueFull,     // queued, queue_limit
  kDeadline,      // predicted wait and total exceed the deadline
};
std::string_view Name(Exclusion exclusion);  // "none", "model", "pinned", ...

// Why the chosen one was chosen.
enum class ReasonCode : uint8_t {
  kNotRouted,
  kFastest,        // lowest prediction
  kRule,           // the policy's table or name says so
  kRuleFallback,   // the rule's backend cannot take it
  kOnlyCandidate,  // nothing else could take it
  kPinnedBackend,
  kTieLeastLoaded,
  kTieLeastRecent,
  kExploring,  // its model is a prior: to be measured
};
std::string_view Name(ReasonCode code);  // "fastest", "rule", ...

struct Candidate {
  std::string name = {};
  Exclusion exclusion = Exclusion::kNone;
  int64_t need_tokens = 0;  // p and g together
  int64_t have_tokens = 0;  // its context; 0: unknown
  ContextVerdict context = ContextVerdict::kFits;
  bool estimated_tokens = false;
  bool short_match_ignored = false;  // its cached prefix is below min_match_bytes
  int64_t running = 0;
  int64_t queued = 0;
  int64_t queue_limit = std::numeric_limits<int64_t>::max();  // null in JSON: no limit

  Workload workload;            // p, g (cut to what the context leaves), p_cache, state
  int64_t predicted_reuse = 0;  // what the backend should report: at most p - 1
  double queue_ms = 0;          // wait before its prefill starts
  double sharing_ms = 0;        // what jobs beside it add
  Prediction prediction;        // in the form that the policy uses
  double total_ms = 0;          // queue, sharing and predicted total: what the client would see
  double ttft_ms = 0;           // queue, sharing's part and predicted time to first token
  double score_ms = 0;          // what the policy compared

  bool operator==(const Candidate&) const = default;
};

// Filled in by the server when the request has ended.
struct Outcome {
  bool finished = false;
  std::optional<double> queue_ms = {};    // measured wait before dispatch
  std::optional<double> ttft_ms = {};     // from arrival to the first token
  std::optional<double> prefill_ms = {};  // the backend's own timings
  std::optional<double> decode_ms = {};
  std::optional<double> total_ms = {};  // from arrival to the last byte
  std::optional<int64_t> prompt_tokens = {};
  // What the prefix index said when the request was sent: it may have waited since the decision.
  std::optional<int64_t> predicted_reuse = {};
  std::optional<int64_t> cached_tokens = {};
  std::optional<int64_t> generated_tokens = {};
  std::string finish = {};  // "stop", "length", "cancelled"...
  std::string error = {};   // empty: none
  bool operator==(const Outcome&) const = default;
};

struct Decision {
  std::string id = {};
  double time_ms = 0;
  std::string model = {};
  RequestKind kind = RequestKind::kChat;
  int64_t max_new_tokens = 0;
  bool max_new_given = true;
  int choices = 1;
  int64_t wanted_context = 0;
  double deadline_ms = std::numeric_limits<double>::infinity();
  bool no_cache = false;
  std::string pinned = {};

  std::string policy = {};
  Objective objective = Objective::kTotal;
  uint32_t notes = 0;  // PolicyNote bits

  DecisionStatus status = DecisionStatus::kUnavailable;
  std::optional<size_t> chosen = {};  // index into candidates, where routed
  ReasonCode reason_code = ReasonCode::kNotRouted;
  std::string reason = {};  // one sentence with the numbers
  std::vector<Candidate> candidates = {};

  int64_t n_prompt_tokens = 0;  // kContextOverflow: the smallest count among the backends
  int64_t n_ctx = 0;            // kContextOverflow: the largest context
  int64_t retry_after_s = 0;    // kQueueFull
  double best_total_ms = 0;     // kDeadline: the fastest prediction

  Outcome outcome;

  const Candidate* chosen_candidate() const {
    return chosen && *chosen < candidates.size() ? &candidates[*chosen] : nullptr;
  }
  bool operator==(const Decision&) const = default;
};

// One line of JSON, keys in a fixed order, units in their names.
std::string ToJson(const Decision& decision);
Result<Decision> FromJson(std::string_view text);

}  // namespace parallax::router
