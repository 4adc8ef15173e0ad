// From a request to a decision: its tokens, the backends' state, what is decided, who is told no.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "router/symbols.h"
#include "server/dispatcher.h"
#include "server/model_names.h"
#include "server/openai/error.h"

namespace parallax::server {
namespace {

// A prompt this long is not counted by a tokenizer that has not answered by then.
constexpr double kCountingMs = 2'000;
constexpr std::size_t kNamesShown = 20;  // in an error

http::Headers DecisionHeaders(const router::Decision& decision) {
  http::Headers headers;
  if (const router::Candidate* chosen = decision.chosen_candidate()) {
    headers.emplace_back("x-parallax-backend", chosen->name);
  }
  headers.emplace_back("x-parallax-decision", decision.id);
  return headers;
}

// The backend that the request names, where it has not the model that the request names.
const router::Candidate* PinnedToAnother(const router::Decision& decision) {
  for (const router::Candidate& candidate : decision.candidates) {
    if (candidate.name == decision.pinned && candidate.exclusion == router::Exclusion::kModel) {
      return &candidate;
    }
  }
  return nullptr;
}

// "cpu: down (connection refused)": why each backend of the model is out.
std::string Reasons(const router::Decision& decision, const router::Snapshot& snapshot) {
  std::string text;
  for (std::size_t i = 0; i < decision.candidates.size(); ++i) {
    const router::Candidate& candidate = decision.candidates[i];
    if (candidate.exclusion == router::Exclusion::kModel) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", candidate.name,
                        router::Name(candidate.exclusion));
    const std::string& why = snapshot.backends[i].reason;
    if (candidate.exclusion == router::Exclusion::kDown && !why.empty()) {
      text += fmt::format(" ({})", why);
    }
  }
  return text;
}

}  // namespace

// One question for each kind of tokens among the backends that could answer.
void Dispatcher::CountPrompt(Job& job) {
  job.prompt_text = openai::PromptText(job.request);
  CountedPrompt estimate;
  estimate.estimated = true;
  job.prompts.push_back(std::move(estimate));

  const std::string wanted = WantedModel(job.request);
  std::vector<std::vector<BackendState*>> kinds;
  for (const auto& backend : backends_) {
    if (backend->health != Health::kReady || backend->facts.identity.empty()) continue;
    if (!router::AnswersTo(ModelNames(*backend->settings, backend->facts), wanted)) continue;
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
      return kind.front()->facts.identity == backend->facts.identity;
    });
    if (same == kinds.end()) {
      kinds.push_back({backend.get()});
    } else {
      same->push_back(backend.get());
    }
  }
  job.counts_awaited = static_cast<int>(kinds.size());
  if (kinds.empty()) return Counted(job);
  job.timer = loop_.After(kCountingMs, [this, id = job.id] {
    if (Job* late = FindJob(id)) {
      late->timer = 0;
      late->counts_awaited = 0;
      Counted(*late);
    }
  });
  for (auto& kind : kinds) {
    std::string identity = kind.front()->facts.identity;
    AskForTokens(job, std::move(identity), std::move(kind), 0);
  }
}

// Of backends with the same tokens the first that answers: one may be dead without our knowing yet.
void Dispatcher::AskForTokens(const Job& job, std::string identity, std::vector<BackendState*> kind,
                              std::size_t next) {
  Backend& asked = *kind[next]->backend;
  asked.CountTokens(job.request, [this, alive = alive_, id = job.id, identity = std::move(identity),
                                  kind = std::move(kind), next](Result<Tokens> tokens) mutable {
    if (!*alive) return;
    Job* found = FindJob(id);
    if (found == nullptr || found->counts_awaited == 0) return;
    if (tokens.ok()) {
      CountedPrompt counted;
      counted.identity = identity;
      counted.tokens = static_cast<std::int64_t>(tokens->size());
      counted.symbols = std::move(*tokens);
      found->prompts.push_back(std::move(counted));
    } else if (tokens.error().code() != ErrorCode::kUnsupported && next + 1 < kind.size()) {
      return AskForTokens(*found, std::move(identity), std::move(kind), next + 1);
    }
    if (--found->counts_awaited == 0) Counted(*found);
  });
}

void Dispatcher::Counted(Job& job) {
  // An agent's next turn is here before its last answer's tokens are: it waits for what will be
  // in the cache, as long as it would have waited for its own tokens; others do not. Answers that
  // end after it was counted cannot be what it goes on from.
  if (job.awaited_answer == 0) job.awaited_answer = last_answer_;
  if (AwaitsAnswer(job) && loop_.NowMs() - job.arrived_ms < kCountingMs) {
    job.counts_awaited = 0;
    if (job.timer == 0) {
      job.timer = loop_.After(kCountingMs, [this, id = job.id] {
        if (Job* late = FindJob(id)) {
          late->timer = 0;
          Counted(*late);
        }
      });
    }
    awaiting_answers_.push_back(job.id);
    return;
  }
  std::erase(awaiting_answers_, job.id);
  loop_.CancelTimer(std::exchange(job.timer, 0));
  job.counted_ms = loop_.NowMs();
  metrics_.count_seconds.Add((job.counted_ms - job.arrived_ms) / 1000);
  Decide(job);
}

bool Dispatcher::AwaitsAnswer(const Job& job) const {
  const std::string_view text(job.prompt_text);
  const auto last = answers_pending_.upper_bound(job.awaited_answer);
  return std::any_of(answers_pending_.begin(), last, [&](const auto& pending) {
    const auto& [bytes, hash] = pending.second;
    // A turn's text begins with the whole text of the turn before.
    return bytes < text.size() && std::hash<std::string_view>()(text.substr(0, bytes)) == hash;
  });
}

router::Snapshot Dispatcher::MakeSnapshot() const {
  const double now = loop_.NowMs();
  router::Snapshot snapshot;
  snapshot.now_ms = loop_.WallMs();
  for (const auto& backend : backends_) {
    router::BackendSnapshot view = Describe(*backend->settings, backend->facts, backend->id());
    if (backend->marked || backend->unloading || !backend->backend->loaded()) {
      view.availability = router::Availability::kUnloaded;
      view.ready_in_ms = backend->load_ms;
    } else if (backend->health == Health::kDown) {
      view.availability = router::Availability::kDown;
      view.reason = backend->why;
    } else if (backend->health == Health::kLoading) {
      view.availability = router::Availability::kLoading;
      view.ready_in_ms = std::max(backend->load_ms - (now - backend->load_began_ms), 100.0);
    } else if (!backend->breaker.Allows(now)) {
      view.availability = router::Availability::kBreakerOpen;
      view.ready_in_ms = backend->breaker.RetryInMs(now);
    }
    for (const Job* job : backend->running) {
      router::Job left;
      if (job->first_delta_ms == 0) {
        left.prefill_ms = std::max(job->predicted_prefill_ms - (now - job->sent_ms), 0.0);
        left.decode_ms = job->predicted_decode_ms;
      } else {
        left.decode_ms = std::max(job->predicted_decode_ms - (now - job->first_delta_ms), 0.0);
      }
      view.running.insert(view.running.end(), job->SlotsOn(*backend), left);
    }
    for (const Ghost& ghost : backend->ghosts) {
      if (ghost.until_ms > now) {
        view.running.push_back({.prefill_ms = ghost.until_ms - now, .cancelled = true});
      }
    }
    for (const Job* job : backend->queued) {
      view.queued.push_back({job->predicted_prefill_ms, job->predicted_decode_ms, false});
    }
    snapshot.backends.push_back(std::move(view));
  }
  return snapshot;
}

void Dispatcher::Decide(Job& job) {
  if (stopping_) {
    return Failed(job, router::BackendOutcome::kClientCancelled,
                  openai::ErrorResponse(503, "the server is stopping", "stopping"),
                  "the server is stopping", false);
  }
  router::Snapshot snapshot = MakeSnapshot();
  std::vector<router::BackendPrompt> prompts(backends_.size());
  // Only where a backend's own count is missing: both read the whole text.
  CountedPrompt& estimate = job.prompts.front();
  std::optional<router::ByteCounts> bytes;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    const CountedPrompt& prompt = job.PromptFor(backends_[i]->facts.identity);
    prompts[i].tokens = prompt.tokens;
    if (prompt.estimated) {
      if (!bytes) bytes = router::CountBytes(job.prompt_text);
      if (estimate.symbols.empty()) {
        estimate.symbols = router::ByteBlocks(job.prompt_text, options_.block_bytes);
      }
      prompts[i].tokens = estimator_.Estimate(backends_[i]->name, *bytes).tokens;
    }
    prompts[i].symbols = prompt.symbols;
    prompts[i].estimated = prompt.estimated;
    prompts[i].bytes = static_cast<std::int64_t>(job.prompt_text.size());
    models_.backends[i].extended = backends_[i]->fit->model();
  }
  for (const std::size_t failed : job.tried) {
    snapshot.backends[failed].availability = router::Availability::kDown;
    snapshot.backends[failed].reason = "it failed this request";
  }
  router::RouteRequest request;
  request.id = job.id;
  request.model = WantedModel(job.request);
  request.kind = job.request.endpoint == openai::Endpoint::kChat ? router::RequestKind::kChat
                                                                 : router::RequestKind::kCompletion;
  request.prompts = prompts;
  request.max_new_tokens = job.max_tokens;
  request.max_new_given = job.request.max_tokens.has_value();
  request.choices = static_cast<int>(job.request.choices);
  request.wanted_context = job.request.context.value_or(0);
  if (job.request.timeout_ms) {
    request.deadline_ms = std::max(*job.request.timeout_ms - (loop_.NowMs() - job.arrived_ms), 0.0);
  }
  request.no_cache = !job.request.cache_prompt;
  request.pinned = job.pinned;

  if (job.decide_only) {
    router::TieState ties = ties_;  // a question changes nothing
    job.decision = router::Decide(request, snapshot, index_, models_, options_.policy, ties);
    http::Headers headers = DecisionHeaders(job.decision);
    headers.emplace_back("Content-Type", "application/json");
    job.answer.responder().Send({200, std::move(headers), router::ToJson(job.decision) + "\n"});
    jobs_.erase(job.id);
    return;
  }
  const double before = loop_.NowMs();
  job.decision = router::Decide(request, snapshot, index_, models_, options_.policy, ties_);
  metrics_.decide_seconds.Add((loop_.NowMs() - before) / 1000);
  ++metrics_.decisions[std::string(router::Name(job.decision.status))];
  job.answer.SetHeaders(DecisionHeaders(job.decision));
  if (job.decision.status != router::DecisionStatus::kRouted || !job.decision.chosen) {
    return Refuse(job);
  }
  Enqueue(job);
}

// All backends' names where none has this one; empty where it is known, or none was asked for.
std::string Dispatcher::NamesUnlessKnown(const std::string& pinned) const {
  if (pinned.empty()) return "";
  std::string names;
  for (const auto& backend : backends_) {
    if (backend->name == pinned) return "";
    names += (names.empty() ? "" : ", ") + backend->name;
  }
  return names;
}

// Nobody can take it: the status says whose fault that is.
void Dispatcher::Refuse(Job& job) {
  const router::Decision& decision = job.decision;
  http::Response response;
  switch (decision.status) {
    case router::DecisionStatus::kUnknownModel: {
      std::string names;
      std::set<std::string> seen;
      for (const auto& backend : backends_) {
        for (std::string& model : ListedModels(*backend->settings, backend->facts)) {
          if (seen.size() >= kNamesShown || !seen.insert(model).second) continue;
          names += (names.empty() ? "" : ", ") + model;
        }
      }
      if (seen.size() >= kNamesShown) names += ", ...";
      response = openai::ErrorResponse(
          404,
          fmt::format("no backend answers to the model '{}'; there are: {}",
                      job.request.model.substr(0, 200), names.empty() ? "none" : names),
          "model_not_found");
      break;
    }
    case router::DecisionStatus::kContextOverflow:
      response = openai::ContextErrorResponse(decision.n_prompt_tokens, decision.n_ctx);
      break;
    case router::DecisionStatus::kQueueFull:
      response = openai::ErrorResponse(429, "every backend's queue is full", "queue_full");
      response.headers.emplace_back("Retry-After", std::to_string(decision.retry_after_s));
      break;
    case router::DecisionStatus::kDeadline:
      response = openai::ErrorResponse(
          503,
          fmt::format("no backend is expected to answer within the request's timeout: the fastest "
                      "would take {:.1f} s",
                      decision.best_total_ms / 1000),
          "deadline");
      break;
    default:
      if (const std::string names = NamesUnlessKnown(job.pinned); !names.empty()) {
        // The client's mistake: another try will not be answered either.
        response = openai::ErrorResponse(
            404, fmt::format("there is no backend '{}'; there are: {}", job.pinned, names),
            "backend_not_found");
        break;
      }
      if (const router::Candidate* pinned = PinnedToAnother(decision)) {
        response =
            openai::ErrorResponse(404,
                                  fmt::format("backend '{}' does not answer to the model '{}'",
                                              pinned->name, job.request.model.substr(0, 200)),
                                  "model_not_found");
        break;
      }
      if (job.last_response) {
        response = *std::move(job.last_response);  // nobody else: what the last one said
        break;
      }
      response = openai::ErrorResponse(
          503,
          fmt::format("no backend can take this request ({})", Reasons(decision, MakeSnapshot())),
          "no_backend");
      response.headers.emplace_back("Retry-After", "1");
  }
  GiveUp(job, response,
         job.last_failure.empty() ? std::string(router::Name(decision.status)) : job.last_failure);
}

}  // namespace parallax::server
