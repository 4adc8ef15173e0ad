// What an ended request teaches: latency, answer lengths, tokens a byte, and what the cache holds.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "router/symbols.h"
#include "server/dispatcher.h"

namespace parallax::server {
namespace {

constexpr std::int64_t kLongestAnswer = 32'768;

// The text that the next turn's prompt will begin with; see openai::PromptText.
std::string NextTurn(const Job& job) {
  return job.request.endpoint == openai::Endpoint::kChat
             ? job.prompt_text + "assistant\n" + job.text + "\n"
             : job.prompt_text + job.text;
}

}  // namespace

// In the backend's own tokens; where no tokenizer answers, in shares of the estimated prompt.
std::int64_t Dispatcher::PredictReuse(const Job& job, const BackendState& backend) const {
  if (!job.request.cache_prompt) return 0;
  const CountedPrompt& prompt = job.PromptFor(backend.facts.identity);
  if (!prompt.estimated || prompt.symbols.empty()) {
    return static_cast<std::int64_t>(job.reusable);
  }
  const std::int64_t tokens = job.decision.candidates[backend.index].workload.prompt_tokens;
  return static_cast<std::int64_t>(job.held) * tokens /
         static_cast<std::int64_t>(prompt.symbols.size());
}

void Dispatcher::EndRun(Job& job) {
  if (job.run != 0) index_.Abandon(backends_[job.backend]->id(), std::exchange(job.run, 0));
}

void Dispatcher::Learn(const Job& job) {
  BackendState& backend = *backends_[job.backend];
  const openai::Report& report = job.report;
  if (report.prompt_tokens >= 0) {
    backend.tokens_in += static_cast<std::uint64_t>(report.prompt_tokens);
    const CountedPrompt& prompt = job.PromptFor(backend.facts.identity);
    if (!prompt.estimated) {
      ++backend.count_checked;
      if (prompt.tokens == report.prompt_tokens) ++backend.count_exact;
    } else if (!job.request.has_media) {
      estimator_.Observe(backend.name, router::CountBytes(job.prompt_text), report.prompt_tokens);
    }
  }
  if (report.cached_tokens > 0) {
    backend.tokens_reused += static_cast<std::uint64_t>(report.cached_tokens);
  }
  if (report.completion_tokens > 0) {
    backend.tokens_out += static_cast<std::uint64_t>(report.completion_tokens);
    if (!job.request.max_tokens) {
      // A count without sense may not spoil what is expected of others.
      const double n = static_cast<double>(std::min(report.completion_tokens, kLongestAnswer));
      mean_answer_tokens_ = mean_answer_tokens_ > 0 ? 0.9 * mean_answer_tokens_ + 0.1 * n : n;
    }
  }
  LearnLatency(job, backend);
  LearnCache(job, backend);
}

// Only of requests that had the backend to themselves and a client that kept up: the others measure
// somebody else.
void Dispatcher::LearnLatency(const Job& job, BackendState& backend) {
  const openai::Report& report = job.report;
  const double total = loop_.NowMs() - job.sent_ms;
  if (job.had_company || job.was_paused || job.request.choices > 1) return;
  if (report.prompt_tokens < 0 || report.completion_tokens < 1 || !(total > 0)) return;
  // Against what would have been predicted for the tokens that came, not for the budget.
  router::Observation seen;
  const std::int64_t reused =
      report.cached_tokens >= 0 ? report.cached_tokens : job.predicted_reuse;
  seen.workload = router::MakeWorkload(report.prompt_tokens, report.completion_tokens, reused);
  const double predicted = router::Predict(backend.fit->model(), seen.workload).total_ms;
  metrics_.prediction_error_ratio.Add(std::abs(predicted - total) / total);
  seen.total_ms = total;
  if (report.prefill_ms >= 0 && report.decode_ms >= 0) {
    seen.prefill_ms = report.prefill_ms;
    seen.decode_ms = report.decode_ms;
  } else if (job.deltas > 1 && job.first_delta_ms > 0) {
    seen.prefill_ms = job.first_delta_ms - job.sent_ms;
    seen.decode_ms = loop_.NowMs() - job.first_delta_ms;
  }
  backend.fit->Observe(seen);
}

void Dispatcher::LearnCache(const Job& job, BackendState& backend) {
  const auto id = backend.id();
  const CountedPrompt& prompt = job.PromptFor(backend.facts.identity);
  const router::SymbolSpan symbols(prompt.symbols);
  if (job.first_delta_ms == 0 && job.report.prompt_tokens < 0) {
    // Stopped inside its prefill: what the backend had of it is all that is sure to be left.
    const std::size_t held = std::min(job.held, symbols.size());
    index_.Insert(id, symbols.first(held), held, job.run);
    return;
  }
  const double per_symbol =
      prompt.estimated && !symbols.empty() && job.report.prompt_tokens > 0
          ? static_cast<double>(job.report.prompt_tokens) / static_cast<double>(symbols.size())
          : 1.0;
  router::CacheReport report;
  report.run = job.run;
  report.symbols = symbols;
  report.prompt_symbols = symbols.size();
  report.prompt_tokens = std::max<std::int64_t>(job.report.prompt_tokens, 0);
  report.reported_tokens = job.report.cached_tokens;
  report.predicted_tokens = job.predicted_reuse;
  if (job.report.cached_tokens >= 0 && job.request.cache_prompt && !job.request.has_media) {
    ++backend.reuse_checked;
    if (std::abs(static_cast<double>(report.predicted_tokens - report.reported_tokens)) <
        std::max(1.0, 2 * per_symbol * (prompt.estimated ? 1 : 0))) {
      ++backend.reuse_exact;
    }
    const router::ReportVerdict verdict = index_.Complete(id, report);
    if (router::IsMisprediction(verdict)) ++metrics_.prefix_mispredict;
    // In doubt until a report confirms it: storing it again with its answer would say that it is
    // believed.
    if (verdict == router::ReportVerdict::kUnexplained) return;
  } else {
    index_.Insert(id, symbols, symbols.size(), job.run);
  }
  if (job.request.choices > 1 || job.text.empty() || !job.text_is_whole) return;

  // The answer is in the cache too, as the tokens it was generated from: all but the last one.
  if (prompt.estimated) {
    const std::vector<router::Symbol> next =
        router::ByteBlocks(NextTurn(job), options_.block_bytes);
    index_.Insert(id, next, symbols.size(), job.run);
    return;
  }
  const std::int64_t generated = job.report.completion_tokens;
  answers_pending_[++last_answer_] = {job.prompt_text.size(),
                                      std::hash<std::string_view>()(job.prompt_text)};
  backend.backend->CountAnswerTokens(
      job.request, job.text,
      [this, alive = alive_, id, run = job.run, all = prompt.symbols, generated,
       number = last_answer_](Result<Tokens> answer) mutable {
        if (!*alive) return;
        if (!answer.ok()) return AnswerCounted(number);
        const std::size_t prompt_size = all.size();
        all.insert(all.end(), answer->begin(), answer->end());
        if (generated >= 0) {
          const std::size_t most =
              prompt_size + static_cast<std::size_t>(std::max<std::int64_t>(generated - 1, 0));
          if (all.size() > most) all.resize(most);
        }
        index_.Insert(id, all, prompt_size, run);
        AnswerCounted(number);
      });
}

void Dispatcher::AnswerCounted(std::uint64_t answer) {
  answers_pending_.erase(answer);
  for (const std::string& waiting : std::exchange(awaiting_answers_, {})) {
    if (Job* job = FindJob(waiting)) Counted(*job);
  }
}

}  // namespace parallax::server
