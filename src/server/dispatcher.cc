#include "server/dispatcher.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "router/symbols.h"
#include "server/openai/error.h"

namespace parallax::server {
namespace {

// A prompt this long is not counted by a tokenizer that has not answered by then.
constexpr double kCountingMs = 2'000;

http::Headers DecisionHeaders(const router::Decision& decision) {
  http::Headers headers;
  if (const router::Candidate* chosen = decision.chosen_candidate()) {
    headers.emplace_back("x-parallax-backend", chosen->name);
  }
  headers.emplace_back("x-parallax-decision", decision.id);
  return headers;
}

std::string Reasons(const router::Decision& decision) {
  std::string text;
  for (const router::Candidate& candidate : decision.candidates) {
    if (candidate.exclusion == router::Exclusion::kModel) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", candidate.name,
                        router::Name(candidate.exclusion));
  }
  return text;
}

}  // namespace

void Job::OnEvent(std::string_view raw, std::string_view data) { owner->OnEvent(*this, raw, data); }
void Job::OnEnd(const CallEnd& end) { owner->OnEnd(*this, end); }

int BackendState::slots() const {
  if (settings->single_flight) return 1;
  if (settings->slots > 0) return settings->slots;
  return std::max(facts.slots, 1);
}

std::int64_t BackendState::context() const {
  return settings->context > 0 ? settings->context : facts.context_tokens;
}

Dispatcher::Dispatcher(Loop& loop, const DispatcherOptions& options, LogSink log)
    : loop_(loop), options_(options), log_(std::move(log)), index_(options.index) {
  // Ids of two runs must not meet in one decisions file.
  id_prefix_ = fmt::format("d{:x}", static_cast<std::uint64_t>(loop_.WallMs()));
}

Dispatcher::~Dispatcher() {
  *alive_ = false;
  loop_.CancelTimer(plan_timer_);
  for (const auto& [id, job] : jobs_) loop_.CancelTimer(job->timer);
  for (const auto& backend : backends_) {
    loop_.CancelTimer(backend->probe_timer);
    loop_.CancelTimer(backend->pump_timer);
    for (Job* job : backend->running) backend->backend->Abort(job->call);
  }
}

void Dispatcher::AddBackend(const BackendSettings& settings, std::unique_ptr<Backend> backend,
                            const router::BackendModels& models) {
  auto state = std::make_unique<BackendState>();
  state->index = backends_.size();
  state->name = settings.name;
  state->settings = std::make_unique<BackendSettings>(settings);
  state->backend = std::move(backend);
  state->load_ms = settings.load_ms;
  state->fit = std::make_unique<router::OnlineFit>(models.extended);
  models_.backends.push_back(models);
  AddToIndex(*state);
  backends_.push_back(std::move(state));
}

// Again where it turns out that a tokenizer answers, or does not.
void Dispatcher::AddToIndex(const BackendState& backend) {
  index_.AddBackend(
      static_cast<router::BackendId>(backend.index),
      {.max_sequences = backend.settings->cache_sequences,
       .max_tokens = backend.settings->cache_tokens,
       .tokens_per_symbol =
           backend.facts.identity.empty() ? static_cast<double>(options_.block_bytes) / 4 : 1.0});
}

void Dispatcher::SetTables(std::optional<router::PsrTable> psr,
                           std::optional<router::PromptOnlyRule> prompt_only) {
  models_.psr = std::move(psr);
  models_.prompt_only = std::move(prompt_only);
}

Result<void> Dispatcher::Start() {
  std::vector<std::string> names;
  for (const auto& backend : backends_) names.push_back(backend->name);
  PX_RETURN_IF_ERROR(router::CheckPolicy(options_.policy, models_, names));
  for (const auto& backend : backends_) {
    if (backend->backend->loadable() && options_.max_loaded == 0) {
      backend->load_began_ms = backend->loading_since_ms = loop_.NowMs();
      backend->backend->Load();
    }
    if (backend->backend->loaded() || options_.max_loaded == 0) ProbeSoon(*backend, 0);
  }
  return {};
}

std::string Dispatcher::Submit(openai::GenerationRequest request, const SubmitOptions& options,
                               std::shared_ptr<http::Responder> responder) {
  Job* job = Create(std::move(request), options, std::move(responder));
  std::string id = job->id;
  job->answer.responder().OnClosed([this, alive = alive_, id] {
    if (*alive) Cancel(id);
  });
  CountPrompt(*job);
  return id;
}

void Dispatcher::Route(openai::GenerationRequest request, const SubmitOptions& options,
                       std::shared_ptr<http::Responder> responder) {
  Job* job = Create(std::move(request), options, std::move(responder));
  job->decide_only = true;
  job->answer.responder().OnClosed([this, alive = alive_, id = job->id] {
    if (*alive) Cancel(id);
  });
  CountPrompt(*job);
}

Job* Dispatcher::Create(openai::GenerationRequest request, const SubmitOptions& options,
                        std::shared_ptr<http::Responder> responder) {
  auto job = std::make_unique<Job>(this, std::move(request), std::move(responder));
  job->id = fmt::format("{}-{}", id_prefix_, ++last_id_);
  job->arrived_ms = loop_.NowMs();
  job->pinned = options.backend;
  job->max_tokens = ExpectedTokens(*job);
  // A client may leave before there is a decision: its record says at least who it was.
  job->decision.id = job->id;
  job->decision.time_ms = loop_.WallMs();
  job->decision.model = job->request.model;
  job->decision.max_new_tokens = job->max_tokens;
  Job* raw = job.get();
  jobs_[job->id] = std::move(job);
  return raw;
}

// The budget the client gave; where it gave none, what answers without a budget came to lately.
std::int64_t Dispatcher::ExpectedTokens(const Job& job) const {
  if (job.request.max_tokens) return *job.request.max_tokens;
  return mean_answer_tokens_ > 0 ? static_cast<std::int64_t>(mean_answer_tokens_ + 0.5)
                                 : options_.default_max_tokens;
}

bool Dispatcher::Serves(const BackendState& backend, std::string_view model) const {
  const auto& own = backend.settings->models;
  const auto& told = backend.facts.models;
  if (model.empty() || model == kAnyModel || (own.empty() && told.empty())) return true;
  const auto has = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), model) != names.end();
  };
  return has(own) || has(told) || std::find(own.begin(), own.end(), "*") != own.end();
}

// One question for each kind of tokens among the backends that could answer.
void Dispatcher::CountPrompt(Job& job) {
  job.prompt_text = openai::PromptText(job.request);
  CountedPrompt estimate;
  estimate.estimated = true;
  estimate.symbols = router::ByteBlocks(job.prompt_text, options_.block_bytes);
  job.prompts.push_back(std::move(estimate));

  std::vector<BackendState*> asked;
  for (const auto& backend : backends_) {
    if (backend->health != Health::kReady || backend->facts.identity.empty()) continue;
    if (!Serves(*backend, job.request.model)) continue;
    const bool twice = std::any_of(asked.begin(), asked.end(), [&](const BackendState* other) {
      return other->facts.identity == backend->facts.identity;
    });
    if (!twice) asked.push_back(backend.get());
  }
  job.counts_awaited = static_cast<int>(asked.size());
  if (asked.empty()) return Counted(job);
  job.timer = loop_.After(kCountingMs, [this, id = job.id] {
    if (Job* late = FindJob(id)) {
      late->timer = 0;
      late->counts_awaited = 0;
      Counted(*late);
    }
  });
  for (BackendState* backend : asked) {
    backend->backend->CountTokens(job.request,
                                  [this, alive = alive_, id = job.id,
                                   identity = backend->facts.identity](Result<Tokens> tokens) {
                                    if (!*alive) return;
                                    Job* found = FindJob(id);
                                    if (found == nullptr || found->counts_awaited == 0) return;
                                    if (tokens.ok()) {
                                      CountedPrompt counted;
                                      counted.identity = identity;
                                      counted.tokens = static_cast<std::int64_t>(tokens->size());
                                      counted.symbols = std::move(*tokens);
                                      found->prompts.push_back(std::move(counted));
                                    }
                                    if (--found->counts_awaited == 0) Counted(*found);
                                  });
  }
}

void Dispatcher::Counted(Job& job) {
  // An agent's next turn is here before the last answer's tokens are: it waits for what will be
  // in the cache, as long as it would have waited for its own tokens. Answers that end after it
  // was counted cannot be what it goes on from.
  if (job.awaited_answer == 0) job.awaited_answer = last_answer_;
  const bool awaits = !answers_pending_.empty() && *answers_pending_.begin() <= job.awaited_answer;
  if (awaits && loop_.NowMs() - job.arrived_ms < kCountingMs) {
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
  metrics_.count_ms.Add(job.counted_ms - job.arrived_ms);
  Decide(job);
}

router::Snapshot Dispatcher::MakeSnapshot() const {
  const double now = loop_.NowMs();
  router::Snapshot snapshot;
  snapshot.now_ms = loop_.WallMs();
  for (const auto& backend : backends_) {
    router::BackendSnapshot view;
    const BackendSettings& settings = *backend->settings;
    view.id = static_cast<router::BackendId>(backend->index);
    view.name = backend->name;
    view.kind = settings.kind;
    view.context_tokens = backend->context();
    view.slots = backend->slots();
    view.single_flight = settings.single_flight;
    view.preemptible_prefill = settings.preemptible_prefill;
    view.sharing = settings.sharing;
    view.queue_limit = settings.queue_limit;
    view.cache_reporting = true;
    const auto& own = settings.models;
    if (std::find(own.begin(), own.end(), "*") == own.end()) {
      view.models = own;
      const auto& told = backend->facts.models;
      view.models.insert(view.models.end(), told.begin(), told.end());
    }
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
      view.running.push_back(left);
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
  const router::ByteCounts bytes = router::CountBytes(job.prompt_text);
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    const std::string& identity = backends_[i]->facts.identity;
    const auto counted = std::find_if(
        job.prompts.begin(), job.prompts.end(),
        [&](const CountedPrompt& p) { return !p.estimated && p.identity == identity; });
    const bool exact = counted != job.prompts.end();
    const CountedPrompt& prompt = exact ? *counted : job.prompts.front();
    prompts[i].symbols = prompt.symbols;
    prompts[i].estimated = !exact;
    prompts[i].tokens =
        exact ? prompt.tokens : estimator_.Estimate(backends_[i]->name, bytes).tokens;
    prompts[i].bytes = static_cast<std::int64_t>(job.prompt_text.size());
    models_.backends[i].extended = backends_[i]->fit->model();
  }
  for (const std::size_t failed : job.tried) {
    snapshot.backends[failed].availability = router::Availability::kDown;
    snapshot.backends[failed].reason = "it failed this request";
  }
  router::RouteRequest request;
  request.id = job.id;
  request.model = job.request.model == kAnyModel ? std::string() : job.request.model;
  request.kind = job.request.endpoint == openai::Endpoint::kChat ? router::RequestKind::kChat
                                                                 : router::RequestKind::kCompletion;
  request.prompts = prompts;
  request.max_new_tokens = job.max_tokens;
  request.max_new_given = job.request.max_tokens.has_value();
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
  metrics_.decide_us.Add((loop_.NowMs() - before) * 1000);
  ++metrics_.decisions[std::string(router::Name(job.decision.status))];
  job.answer.SetHeaders(DecisionHeaders(job.decision));
  if (job.decision.status != router::DecisionStatus::kRouted || !job.decision.chosen) {
    return Refuse(job);
  }
  Enqueue(job);
}

// Nobody can take it: the status says whose fault that is.
void Dispatcher::Refuse(Job& job) {
  const router::Decision& decision = job.decision;
  http::Response response;
  switch (decision.status) {
    case router::DecisionStatus::kUnknownModel: {
      std::string names;
      for (const auto& backend : MakeSnapshot().backends) {
        for (const std::string& model : backend.models) {
          if (names.find(model) == std::string::npos) {
            names += (names.empty() ? "" : ", ") + model;
          }
        }
      }
      response =
          openai::ErrorResponse(404,
                                fmt::format("no backend answers to the model '{}'; there are: {}",
                                            job.request.model, names.empty() ? "none" : names),
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
      if (job.last_response) {
        response = *std::move(job.last_response);  // nobody else: what the last one said
        break;
      }
      response = openai::ErrorResponse(
          503, fmt::format("no backend can take this request ({})", Reasons(decision)),
          "no_backend");
      response.headers.emplace_back("Retry-After", "1");
  }
  job.decision.outcome.error =
      job.last_failure.empty() ? std::string(router::Name(decision.status)) : job.last_failure;
  ++metrics_.answers[response.status];
  job.answer.Fail(std::move(response));
  Close(job);
}

void Dispatcher::Enqueue(Job& job) {
  job.backend = *job.decision.chosen;
  const router::Candidate& chosen = job.decision.candidates[job.backend];
  job.predicted_prefill_ms = chosen.prediction.prefill_ms;
  job.predicted_decode_ms = chosen.prediction.decode_ms;
  job.state = Job::State::kQueued;
  records_.Add(job.decision);
  BackendState& backend = *backends_[job.backend];
  backend.queued.push_back(&job);
  if (job.request.timeout_ms) {
    const double left = *job.request.timeout_ms - (loop_.NowMs() - job.arrived_ms);
    job.timer = loop_.After(left, [this, id = job.id] {
      if (Job* late = FindJob(id)) OnTimeout(*late);
    });
  }
  PlanLoads();
  Pump(backend);
}

// What waits for a backend that cannot take it now may be better off elsewhere, or gets told.
void Dispatcher::Requeue(BackendState& backend) {
  std::vector<std::string> waiting;
  for (const Job* job : backend.queued) waiting.push_back(job->id);
  backend.queued.clear();
  for (const std::string& id : waiting) {
    if (Job* job = FindJob(id)) {
      loop_.CancelTimer(std::exchange(job->timer, 0));
      job->state = Job::State::kCounting;
      Decide(*job);
    }
  }
}

// The client is gone: nothing but this request may notice.
void Dispatcher::Cancel(const std::string& id) {
  Job* job = FindJob(id);
  if (job == nullptr) return;
  job->decision.outcome.finish = "cancelled";
  if (job->decide_only) {
    jobs_.erase(id);
    return;
  }
  if (job->state != Job::State::kRunning) {
    ++metrics_.queue_cancelled;
    if (job->state == Job::State::kQueued) {
      ++backends_[job->backend]->cancelled;
      std::erase(backends_[job->backend]->queued, job);
    }
    Close(*job);
    return PumpAll();  // a unit marked for its sake alone may go on
  }
  BackendState& backend = *backends_[job->backend];
  ++metrics_.cancelled;
  ++backend.cancelled;
  backend.backend->Abort(job->call);
  backend.breaker.OnOutcome(router::BackendOutcome::kClientCancelled, loop_.NowMs());
  LearnCache(*job, backend);
  Release(*job, /*busy_until_prefill_ends=*/true);
  Close(*job);
  PumpAll();
}

// The job's last step: its record, its line in the log, its memory.
void Dispatcher::Close(Job& job) {
  loop_.CancelTimer(std::exchange(job.timer, 0));
  const double now = loop_.NowMs();
  router::Outcome& outcome = job.decision.outcome;
  outcome.finished = true;
  outcome.total_ms = now - job.arrived_ms;
  if (job.sent_ms > 0) outcome.queue_ms = job.sent_ms - job.counted_ms;
  if (job.first_delta_ms > 0) outcome.ttft_ms = job.first_delta_ms - job.arrived_ms;
  const openai::Report& report = job.report;
  if (report.prompt_tokens >= 0) outcome.prompt_tokens = report.prompt_tokens;
  if (report.cached_tokens >= 0) outcome.cached_tokens = report.cached_tokens;
  if (report.completion_tokens >= 0) outcome.generated_tokens = report.completion_tokens;
  if (report.prefill_ms >= 0) outcome.prefill_ms = report.prefill_ms;
  if (report.decode_ms >= 0) outcome.decode_ms = report.decode_ms;
  if (outcome.finish.empty()) outcome.finish = job.finish_reason;
  records_.Finish(job.decision);

  const router::Candidate* chosen = job.decision.chosen_candidate();
  const std::string_view where = chosen != nullptr ? chosen->name : std::string_view("no backend");
  const bool bad = !outcome.error.empty();
  Say(bad ? Severity::kWarning : Severity::kInfo, "request",
      fmt::format("{} {} to {} in {:.0f} ms: {}", job.id, openai::Name(job.request.endpoint), where,
                  *outcome.total_ms, bad ? outcome.error : outcome.finish),
      {{"id", job.id},
       {"backend", std::string(where)},
       {"total_ms", fmt::format("{:.1f}", *outcome.total_ms)},
       {"finish", outcome.finish},
       {"error", outcome.error},
       {"reason", job.decision.reason}});
  jobs_.erase(job.id);
}

void Dispatcher::Shutdown(std::function<void()> done) {
  stopping_ = true;
  std::vector<std::string> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (const std::string& id : ids) {
    Job* job = FindJob(id);
    if (job == nullptr) continue;
    if (job->state == Job::State::kRunning) {
      backends_[job->backend]->backend->Abort(job->call);
      Release(*job, false);
    } else if (job->state == Job::State::kQueued) {
      std::erase(backends_[job->backend]->queued, job);
    }
    job->decision.outcome.error = "the server is stopping";
    ++metrics_.answers[503];
    job->answer.Fail(openai::ErrorResponse(503, "the server is stopping", "stopping"));
    Close(*job);
  }
  auto left = std::make_shared<int>(1);
  const auto one_less = [left, done = std::move(done)] {
    if (--*left == 0) done();
  };
  loop_.CancelTimer(std::exchange(plan_timer_, 0));
  for (const auto& backend : backends_) {
    loop_.CancelTimer(std::exchange(backend->probe_timer, 0));
    loop_.CancelTimer(std::exchange(backend->pump_timer, 0));
    if (!backend->backend->loadable()) continue;
    if (backend->unloading) {
      ++*left;
      backend->on_unloaded = one_less;
    } else if (backend->backend->loaded()) {
      ++*left;
      backend->backend->Unload(one_less);
    }
  }
  loop_.Post(one_less);
}

BackendState* Dispatcher::FindBackend(std::string_view name) {
  for (const auto& backend : backends_) {
    if (backend->name == name) return backend.get();
  }
  return nullptr;
}

Job* Dispatcher::FindJob(const std::string& id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

void Dispatcher::Say(Severity severity, std::string event, std::string message,
                     std::vector<std::pair<std::string, std::string>> fields) const {
  if (log_) log_({severity, std::move(event), std::move(message), std::move(fields)});
}

}  // namespace parallax::server
