// The values that a decision is made from: the state of every backend, and the request.
//
// Role:       the server keeps one Snapshot up to date and fills one RouteRequest a request; Decide
//             reads both.
// Ownership:  Snapshot owns its strings and jobs. RouteRequest borrows prompts (no copy of a prompt
//             is made to decide); they must outlive the call.
// Threads:    values; the caller synchronises.
// Invariants: RouteRequest::prompts has one element for each of Snapshot::backends, in its order.
// Example:
//   snapshot.backends[0] = {.id = 0, .name = "cpu", .context_tokens = 8192, .models = {"m"}};
//   BackendPrompt prompts[] = {{.tokens = 1024, .symbols = ids}};
//   RouteRequest request{.id = "r1", .model = "m", .prompts = prompts, .max_new_tokens = 32};
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "router/backend_kind.h"
#include "router/prefix_index.h"
#include "router/queue_model.h"

namespace parallax::router {

enum class Availability : uint8_t {
  kReady,
  kLoading,   // ready in ready_in_ms
  kUnloaded,  // not in memory; ready_in_ms says how long draining a victim and loading would take
  kDown,      // `reason` says why
  kBreakerOpen,  // failed too often lately; ready_in_ms says when it is tried again
  kDraining,     // finishes what it has, takes nothing new
};

// "ready", "loading", "unloaded", "down", "breaker-open", "draining".
std::string_view Name(Availability availability);

struct BackendSnapshot {
  BackendId id = 0;  // of the prefix index and of TieState
  std::string name = {};
  BackendKind kind = BackendKind::kOpenAi;
  Availability availability = Availability::kReady;
  std::string reason = {};     // of kDown
  int64_t context_tokens = 0;  // a prompt and its answer together; 0: unknown, everything fits
  int slots = 1;
  bool single_flight = false;        // one request at a time whatever `slots` says
  bool preemptible_prefill = true;   // see queue_model.h
  double sharing = kDefaultSharing;  // see queue_model.h
  double ready_in_ms = 0;
  int64_t queue_limit = std::numeric_limits<int64_t>::max();  // requests that may wait
  bool cache_reporting = true;           // its responses say how many prompt tokens it reused
  std::vector<std::string> models = {};  // names it answers to; empty: any
  std::vector<Job> running = {};
  std::vector<Job> queued = {};  // in order of arrival
};

struct Snapshot {
  double now_ms = 0;  // the caller's clock, for the record only
  std::vector<BackendSnapshot> backends = {};
};

// The request's prompt as one backend counts it.
struct BackendPrompt {
  int64_t tokens = 0;       // p
  SymbolSpan symbols = {};  // token ids, or byte blocks; empty: nothing known, so nothing is cached
  bool estimated = false;   // `tokens` comes from TokenEstimator, not from a tokenizer
  int64_t bytes = 0;        // of the prompt's text, for min_match_bytes; 0: 4 a token
};

enum class RequestKind : uint8_t { kChat, kCompletion };
std::string_view Name(RequestKind kind);  // "chat", "completion"

struct RouteRequest {
  std::string id = {};
  std::string model = {};
  RequestKind kind = RequestKind::kChat;
  std::span<const BackendPrompt> prompts = {};
  int64_t max_new_tokens = 0;  // g: what the client gave, or the server's default
  bool max_new_given = true;   // false: g is a default; see context_fit.h
  int choices = 1;             // answers of g tokens wanted at once (OpenAI's n)
  int64_t wanted_context = 0;  // the client asks for a context of at least so many tokens
  double deadline_ms = std::numeric_limits<double>::infinity();  // from now, for the whole answer
  bool no_cache = false;    // the client wants no reuse: p_cache is 0 everywhere
  std::string pinned = {};  // only this backend may answer (route-stable mode); empty: any
};

}  // namespace parallax::router
