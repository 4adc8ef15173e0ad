#include "server/dispatcher.h"
#include "server/model_names.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/openai/error.h"

namespace parallax::server {

void Job::OnEvent(std::string_view raw, std::string_view data) { owner->OnEvent(*this, raw, data); }
void Job::OnEnd(const CallEnd& end) { owner->OnEnd(*this, end); }

const CountedPrompt& Job::PromptFor(const std::string& identity) const {
  for (const CountedPrompt& prompt : prompts) {
    if (!prompt.estimated && prompt.identity == identity) return prompt;
  }
  return prompts.front();
}

std::size_t Job::SlotsOn(const BackendState& on) const {
  return static_cast<std::size_t>(std::min<std::int64_t>(request.choices, on.slots()));
}

int BackendState::busy() const {
  std::size_t taken = ghosts.size();
  for (const Job* job : running) taken += job->SlotsOn(*this);
  return static_cast<int>(taken);
}

int BackendState::slots() const { return SlotsOf(*settings, facts); }
std::int64_t BackendState::context() const { return ContextOf(*settings, facts); }

int SlotsOf(const BackendSettings& settings, const BackendFacts& facts) {
  if (settings.single_flight) return 1;
  return settings.slots > 0 ? settings.slots : std::max(facts.slots, 1);
}

std::int64_t ContextOf(const BackendSettings& settings, const BackendFacts& facts) {
  return settings.context > 0 ? settings.context : facts.context_tokens;
}

namespace {

// Of texts that others chose: records keep them for long, and people look at them.
constexpr std::size_t kShownBytes = 1024;
std::string Shortened(std::string text) {
  if (text.size() <= kShownBytes) return text;
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole letters
  text.resize(end);
  return text + "...";
}

}  // namespace

router::BackendSnapshot Describe(const BackendSettings& settings, const BackendFacts& facts,
                                 router::BackendId id) {
  router::BackendSnapshot view;
  view.id = id;
  view.name = settings.name;
  // Only a llama-server tells what its tokens depend on.
  view.kind = facts.identity.empty() ? settings.kind : router::BackendKind::kLlamaServer;
  view.context_tokens = ContextOf(settings, facts);
  view.slots = SlotsOf(settings, facts);
  view.single_flight = settings.single_flight;
  view.preemptible_prefill = settings.preemptible_prefill;
  view.sharing = settings.sharing;
  view.queue_limit = settings.queue_limit;
  view.models = ModelNames(settings, facts);
  return view;
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

// Again where it turns out that a tokenizer answers or does not, or how many slots there are.
void Dispatcher::AddToIndex(const BackendState& backend) {
  index_.AddBackend(
      backend.id(),
      {.max_sequences = backend.settings->cache_sequences,
       // Only a llama-server tells its slots.
       .llama_slots = backend.facts.identity.empty() || backend.settings->cache_tokens > 0
                          ? 0
                          : backend.facts.slots,
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
  return Begin(std::move(request), options, std::move(responder), Purpose::kAnswer);
}

void Dispatcher::Route(openai::GenerationRequest request, const SubmitOptions& options,
                       std::shared_ptr<http::Responder> responder) {
  (void)Begin(std::move(request), options, std::move(responder), Purpose::kDecision);
}

std::string Dispatcher::Begin(openai::GenerationRequest request, const SubmitOptions& options,
                              std::shared_ptr<http::Responder> responder, Purpose purpose) {
  auto job = std::make_unique<Job>(this, std::move(request), std::move(responder));
  std::string id = fmt::format("{}-{}", id_prefix_, ++last_id_);
  job->id = id;
  job->decide_only = purpose == Purpose::kDecision;
  job->arrived_ms = loop_.NowMs();
  job->pinned = options.backend;
  job->via = options.via.empty() ? id_prefix_ : options.via + ", " + id_prefix_;
  job->max_tokens = ExpectedTokens(*job);
  // A client may leave before there is a decision: its record says at least who it was.
  job->decision.id = job->id;
  job->decision.time_ms = loop_.WallMs();
  job->decision.model = Shortened(job->request.model);
  job->decision.max_new_tokens = job->max_tokens;
  job->answer.responder().OnClosed([this, alive = alive_, id] {
    if (*alive) Cancel(id);
  });
  CountPrompt(*(jobs_[id] = std::move(job)));
  return id;
}

// The budget the client gave; where it gave none, what answers without a budget came to lately.
std::int64_t Dispatcher::ExpectedTokens(const Job& job) const {
  if (job.request.max_tokens) return *job.request.max_tokens;
  return mean_answer_tokens_ > 0 ? static_cast<std::int64_t>(mean_answer_tokens_ + 0.5)
                                 : options_.default_max_tokens;
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
  EndRun(job);
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
  if (outcome.finish.empty()) outcome.finish = Shortened(job.finish_reason);
  outcome.error = Shortened(std::move(outcome.error));
  job.decision.model = Shortened(std::move(job.decision.model));
  job.decision.reason = Shortened(std::move(job.decision.reason));
  job.decision.pinned = Shortened(std::move(job.decision.pinned));
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
    GiveUp(*job, openai::ErrorResponse(503, "the server is stopping", "stopping"),
           "the server is stopping");
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

Job* Dispatcher::FindJob(const std::string& id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

void Dispatcher::Say(Severity severity, std::string event, std::string message,
                     std::vector<std::pair<std::string, std::string>> fields) const {
  if (log_) log_({severity, std::move(event), std::move(message), std::move(fields)});
}

}  // namespace parallax::server
