// What happens to a job once a backend has it: sending, events, ends, failures.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/dispatcher.h"
#include "server/model_names.h"
#include "server/openai/error.h"

namespace parallax::server {
namespace {

using router::BackendOutcome;

// What a client may leave unread before its backend is slowed down.
constexpr std::size_t kPauseBytes = 256 << 10;
// What is kept of an answer for the sake of the next turn's prompt.
constexpr std::size_t kTextBytes = 4 << 20;
// Events of an answer that is put together for a client which does not stream.
constexpr std::size_t kWholeAnswerBytes = 256 << 20;
// How long a backend may keep the connection after it has said that the answer is complete.
constexpr double kAfterDoneMs = 1'000;

// Seconds; a date is for caches.
bool IsRetryAfter(std::string_view text) {
  return !text.empty() && text.size() < 9 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsJson(const CallEnd& end) {
  return end.content_type.substr(0, 16) == "application/json" && nlohmann::json::accept(end.text);
}

// Text of an error object, whatever its form.
std::string MessageOf(const nlohmann::json& error) {
  if (error.is_string()) return error.get<std::string>();
  if (error.is_object()) {
    const auto found = error.find("message");
    if (found != error.end() && found->is_string()) return found->get<std::string>();
  }
  return error.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

int StatusOf(const nlohmann::json& error) {
  if (!error.is_object()) return 500;
  const auto found = error.find("code");
  if (found == error.end() || !found->is_number_integer()) return 500;
  const auto code = found->get<std::int64_t>();
  return code >= 400 && code <= 599 ? static_cast<int>(code) : 500;
}

}  // namespace

void Dispatcher::PumpAll() {
  for (const auto& backend : backends_) DropGhosts(*backend);
  PlanLoads();
  for (const auto& backend : backends_) Pump(*backend);
}

void Dispatcher::DropGhosts(BackendState& backend) {
  std::erase_if(backend.ghosts,
                [&](const Ghost& ghost) { return ghost.until_ms <= loop_.NowMs(); });
}

// Starts what the backend has room for, in order of arrival.
void Dispatcher::Pump(BackendState& backend) {
  const double now = loop_.NowMs();
  DropGhosts(backend);
  while (!backend.queued.empty() && backend.health == Health::kReady && backend.backend->loaded() &&
         !backend.marked && !backend.unloading && backend.breaker.Allows(now) &&
         backend.busy() + static_cast<int>(backend.queued.front()->SlotsOn(backend)) <=
             backend.slots()) {
    Job* job = backend.queued.front();
    backend.queued.pop_front();
    Send(backend, *job);
  }
  loop_.CancelTimer(std::exchange(backend.pump_timer, 0));
  if (backend.queued.empty() && !backend.marked) return;
  // When something that nobody tells of makes room: a device's prefill ends, a breaker lets a trial
  // through. A trial under way tells of its end.
  double wait = backend.breaker.RetryInMs(now);
  for (const Ghost& ghost : backend.ghosts) {
    wait = wait > 0 ? std::min(wait, ghost.until_ms - now) : ghost.until_ms - now;
  }
  if (!(wait > 0)) return;
  backend.pump_timer = loop_.After(wait, [this, &backend] {
    backend.pump_timer = 0;
    PumpAll();
  });
}

void Dispatcher::Send(BackendState& backend, Job& job) {
  const double now = loop_.NowMs();
  loop_.CancelTimer(std::exchange(job.timer, 0));
  for (Job* other : backend.running) other->had_company = true;
  job.had_company = backend.busy() > 0;
  job.state = Job::State::kRunning;
  job.sent_ms = now;
  job.first_delta_ms = 0;
  job.deltas = 0;
  job.text.clear();
  job.text_is_whole = true;
  job.answer_bytes = 0;
  job.finish_reason.clear();
  job.done = false;
  job.report = {};
  job.run = ++last_run_;
  const router::PrefixMatch match =
      index_.Begin(backend.id(), job.PromptFor(backend.facts.identity).symbols, job.run);
  job.held = match.held;
  job.reusable = match.reusable;
  job.predicted_reuse = PredictReuse(job, backend);
  job.decision.outcome.predicted_reuse = job.predicted_reuse;
  backend.running.push_back(&job);
  ++backend.sent;
  backend.last_used_ms = now;
  backend.breaker.OnDispatch(now);
  metrics_.queue_seconds.Add((now - job.counted_ms) / 1000);
  const bool ask_usage = !job.request.stream || backend.backend->wants_usage_option();
  job.answer.StripUsage(ask_usage && !job.request.include_usage);
  Call call;
  call.endpoint = job.request.endpoint;
  // An answer that is put together from a stream has to say what a whole one would.
  const bool ask_echo =
      !job.request.stream && job.request.continues && backend.backend->leaves_out_prefill();
  call.text = openai::UpstreamText(
      job.request, {.usage = ask_usage,
                    .echo = ask_echo,
                    .model = UpstreamModel(*backend.settings, backend.facts, job.request.model)});
  call.request_id = job.id;
  call.via = job.via;
  job.call = backend.backend->Start(std::move(call), &job);
  const router::Candidate& chosen = job.decision.candidates[job.backend];
  // The wait of the queue is over: what is left is the request's own time and its neighbours'.
  router::Candidate alone = chosen;
  alone.queue_ms = 0;
  alone.total_ms = chosen.prediction.total_ms + chosen.sharing_ms;
  job.timer = loop_.After(router::TimeoutMs(alone, options_.timeout), [this, id = job.id] {
    if (Job* late = FindJob(id)) OnTimeout(*late);
  });
}

void Dispatcher::OnEvent(Job& job, std::string_view raw, std::string_view data) {
  BackendState& backend = *backends_[job.backend];
  const double now = loop_.NowMs();
  if (job.done) return;  // nothing follows the end
  nlohmann::json chunk;
  openai::ChunkFacts facts;
  if (!data.empty()) facts = openai::ReadChunk(job.request.endpoint, data, &chunk);
  if (facts.has_delta) {
    if (job.first_delta_ms == 0) {
      job.first_delta_ms = now;
      metrics_.ttft_seconds.Add((now - job.arrived_ms) / 1000);
    }
    ++job.deltas;
    if (job.text.size() + facts.text.size() <= kTextBytes) {
      job.text += facts.text;
    } else {
      job.text_is_whole = false;
    }
  }
  if (!facts.finish_reason.empty()) job.finish_reason = facts.finish_reason;
  job.done |= facts.done;
  const openai::Report& told = facts.report;
  const auto keep = [](auto& have, auto value) {
    if (value >= 0) have = value;
  };
  keep(job.report.prompt_tokens, told.prompt_tokens);
  keep(job.report.cached_tokens, told.cached_tokens);
  keep(job.report.completion_tokens, told.completion_tokens);
  keep(job.report.prefill_ms, told.prefill_ms);
  keep(job.report.decode_ms, told.decode_ms);
  if (facts.error) job.stream_error = facts.error;
  // Before the client has seen anything an error can still become a status of its own.
  if (!facts.error || job.answer.committed()) job.answer.Event(raw, facts, chunk);
  job.answer_bytes += raw.size();
  if (!job.answer.stream() && job.answer_bytes > kWholeAnswerBytes) {
    backend.backend->Abort(job.call);
    CallEnd end;
    end.kind = CallEnd::Kind::kGarbage;
    end.message = fmt::format("its answer is over {} bytes", kWholeAnswerBytes);
    return OnEnd(job, end);
  }

  // Comments keep the connection alive; they do not say that the answer gets on.
  if (job.first_delta_ms > 0 && !data.empty() && !job.paused) WatchSilence(job);
  if (!job.paused && job.answer.stream() && job.answer.responder().pending_bytes() > kPauseBytes) {
    job.paused = job.was_paused = true;
    loop_.CancelTimer(std::exchange(job.timer, 0));  // the client's time, not the backend's
    backend.backend->Pause(job.call);
    job.answer.responder().OnDrained([this, alive = alive_, id = job.id] {
      Job* drained = *alive ? FindJob(id) : nullptr;
      if (drained == nullptr || !drained->paused) return;
      drained->paused = false;
      WatchSilence(*drained);
      backends_[drained->backend]->backend->Resume(drained->call);
    });
  }
}

void Dispatcher::WatchSilence(Job& job) {
  loop_.CancelTimer(job.timer);
  job.timer = loop_.After(job.done ? kAfterDoneMs : options_.silence_ms, [this, id = job.id] {
    if (Job* late = FindJob(id)) OnTimeout(*late);
  });
}

// The backend said in its stream that it cannot go on.
void Dispatcher::OnStreamError(Job& job) {
  const std::string message = MessageOf(*job.stream_error);
  const int status = StatusOf(*job.stream_error);
  const std::string text =
      job.stream_error->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (openai::IsContextOverflow(500, text)) {
    return Failed(job, BackendOutcome::kContextOverflow, Overflow(job), message, false);
  }
  const bool client = status < 500;
  Failed(job, client ? BackendOutcome::kClientError : BackendOutcome::kDiedMidStream,
         openai::ErrorResponse(status, message), message, !client);
}

http::Response Dispatcher::Overflow(const Job& job) const {
  return openai::ContextErrorResponse(job.decision.candidates[job.backend].workload.prompt_tokens,
                                      backends_[job.backend]->context());
}

void Dispatcher::OnEnd(Job& job, const CallEnd& end) {
  const std::string& name = backends_[job.backend]->name;
  const auto failed = [&](BackendOutcome outcome, int status, const std::string& why) {
    const std::string message = fmt::format("backend '{}': {}", name, why);
    Failed(job, outcome, openai::ErrorResponse(status, message, "backend_failed"), message, true);
  };
  if (job.stream_error) return OnStreamError(job);
  // Once it has said [DONE], how its connection ended says nothing about the answer.
  const bool whole = job.done && job.answer.spoke();
  switch (whole ? CallEnd::Kind::kComplete : end.kind) {
    case CallEnd::Kind::kComplete: {
      if (!job.answer.spoke()) {
        return failed(BackendOutcome::kGarbage, 502, "its stream ended without an answer");
      }
      if (job.finish_reason.empty() && !job.done) {
        return failed(BackendOutcome::kDiedMidStream, 502,
                      "its stream ended before the answer did");
      }
      break;
    }
    case CallEnd::Kind::kAnswer: {
      nlohmann::json chunk;
      const openai::ChunkFacts facts = openai::ReadChunk(job.request.endpoint, end.text, &chunk);
      if (!facts.is_json || !chunk.contains("choices")) {
        return failed(BackendOutcome::kGarbage, 502, "its answer is not a completion");
      }
      if (job.request.stream) {
        return failed(BackendOutcome::kGarbage, 502, "it was asked for a stream and sent none");
      }
      job.report = facts.report;
      job.finish_reason = facts.finish_reason;
      break;
    }
    case CallEnd::Kind::kRefused: {
      if (openai::IsContextOverflow(end.status, end.text)) {
        return Failed(job, BackendOutcome::kContextOverflow, Overflow(job),
                      "the context is too small", false);
      }
      const bool busy = end.status == 429 || end.status == 503;
      if (end.status == 401 || end.status == 403) {
        // The key is the router's to give, not the client's.
        return failed(BackendOutcome::kDiedBeforeFirstByte, 502,
                      fmt::format("it answered {}: its api_key is not accepted", end.status));
      }
      const bool client = end.status < 500 && end.status != 429 && end.status != 408;
      http::Response response = openai::ErrorResponse(
          end.status >= 400 && end.status <= 599 ? end.status : 502,
          fmt::format("backend '{}': {}", name, end.message), "backend_failed");
      if (end.status >= 400 && end.status <= 599 && IsJson(end)) {
        response.body = end.text;  // the backend's own words, as it formed them
      }
      if (IsRetryAfter(end.retry_after))
        response.headers.emplace_back("Retry-After", end.retry_after);
      return Failed(
          job, client || busy ? BackendOutcome::kClientError : BackendOutcome::kDiedBeforeFirstByte,
          response, fmt::format("backend '{}': {}", name, end.message), !client);
    }
    case CallEnd::Kind::kConnect:
      return failed(BackendOutcome::kConnectFailure, 502, end.message);
    case CallEnd::Kind::kDied:
      return failed(job.first_delta_ms > 0 ? BackendOutcome::kDiedMidStream
                                           : BackendOutcome::kDiedBeforeFirstByte,
                    502, end.message);
    case CallEnd::Kind::kTimeout:
      return failed(BackendOutcome::kTimeout, 504, end.message);
    case CallEnd::Kind::kGarbage:
      return failed(BackendOutcome::kGarbage, 502, end.message);
  }

  BackendState& backend = *backends_[job.backend];
  backend.breaker.OnOutcome(BackendOutcome::kSuccess, loop_.NowMs());
  ++backend.completed;
  ++metrics_.answers[200];
  metrics_.total_seconds.Add((loop_.NowMs() - job.arrived_ms) / 1000);
  Release(job, false);
  if (end.kind == CallEnd::Kind::kAnswer) {
    job.answer.Whole(end.text);
  } else {
    job.answer.Complete();
  }
  Learn(job);
  Close(job);
  PumpAll();
}

void Dispatcher::OnTimeout(Job& job) {
  job.timer = 0;
  BackendState& backend = *backends_[job.backend];
  if (job.state == Job::State::kQueued) {
    std::erase(backend.queued, &job);
    const std::string why = fmt::format("the request's timeout of {:.1f} s passed in the queue",
                                        *job.request.timeout_ms / 1000);
    return Failed(job, BackendOutcome::kClientError, openai::ErrorResponse(504, why, "deadline"),
                  why, false);
  }
  backend.backend->Abort(job.call);
  if (job.done && job.answer.spoke()) return OnEnd(job, CallEnd());
  const bool spoke = job.first_delta_ms > 0;
  const std::string message = fmt::format(
      "backend '{}': no {} within {:.1f} s", backend.name, spoke ? "further event" : "answer",
      (spoke ? options_.silence_ms : loop_.NowMs() - job.sent_ms) / 1000);
  Failed(job, BackendOutcome::kTimeout, openai::ErrorResponse(504, message, "backend_timeout"),
         message, true);
}

// The request failed on its backend. Where its client has seen nothing, another may take it.
void Dispatcher::Failed(Job& job, BackendOutcome outcome, const http::Response& response,
                        const std::string& why, bool may_retry) {
  loop_.CancelTimer(std::exchange(job.timer, 0));
  if (job.state == Job::State::kRunning) {
    BackendState& backend = *backends_[job.backend];
    bool opened = false;
    const bool was_closed = backend.breaker.State(loop_.NowMs()) == router::BreakerState::kClosed;
    backend.breaker.OnOutcome(outcome, loop_.NowMs());
    if (router::IsFailure(outcome)) {
      ++backend.failed;
      ProbeSoon(backend, 0);
      opened = backend.breaker.State(loop_.NowMs()) == router::BreakerState::kOpen;
      if (was_closed && opened) {
        Say(Severity::kWarning, "breaker_open",
            fmt::format("backend '{}' keeps failing: it gets no requests for {:.0f} ms ({})",
                        backend.name, backend.breaker.RetryInMs(loop_.NowMs()), why),
            {{"backend", backend.name}});
      }
    }
    Release(job, false);
    if (may_retry && !job.answer.committed() && !stopping_ &&
        static_cast<int>(job.tried.size()) + 1 < options_.max_tries) {
      job.last_response = response;
      Retry(job, why);
    } else {
      GiveUp(job, response, why);
    }
    if (opened) Requeue(backend);
    return PumpAll();
  }
  GiveUp(job, response, why);
  PumpAll();
}

void Dispatcher::GiveUp(Job& job, const http::Response& response, const std::string& why) {
  job.decision.outcome.error = why;
  ++metrics_.answers[response.status];
  job.answer.Fail(response);
  Close(job);
}

void Dispatcher::Retry(Job& job, const std::string& why) {
  EndRun(job);
  ++metrics_.retries;
  Say(Severity::kWarning, "retry", fmt::format("{} is tried elsewhere: {}", job.id, why),
      {{"id", job.id}});
  job.tried.push_back(job.backend);
  job.last_failure = why;
  job.stream_error.reset();
  job.answer.Restart();
  job.state = Job::State::kCounting;
  Decide(job);
}

// Takes a job off its backend. A device that cannot stop its prefill stays busy without it.
void Dispatcher::Release(Job& job, bool busy_until_prefill_ends) {
  BackendState& backend = *backends_[job.backend];
  loop_.CancelTimer(std::exchange(job.timer, 0));
  std::erase(backend.running, &job);
  backend.last_used_ms = loop_.NowMs();
  const double until = job.sent_ms + job.predicted_prefill_ms;
  if (busy_until_prefill_ends && !backend.settings->preemptible_prefill &&
      job.first_delta_ms == 0 && until > loop_.NowMs()) {
    backend.ghosts.push_back({until});
  }
}

}  // namespace parallax::server
