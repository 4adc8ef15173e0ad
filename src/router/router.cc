#include "router/router.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "router/explain.h"

namespace parallax::router {
namespace {

QueueShape ShapeOf(const BackendSnapshot& b) {
  return {.slots = b.single_flight ? 1 : b.slots,
          .preemptible_prefill = b.preemptible_prefill,
          .ready_in_ms = b.availability == Availability::kReady ? 0 : b.ready_in_ms,
          .sharing = b.sharing};
}

// n answers are decoded side by side on as many slots as there are, slowed by each other, in waves
// where there are fewer; their prompt is prefilled once.
Prediction ForChoices(Prediction one, int choices, const QueueShape& shape) {
  if (choices <= 1) return one;
  const int width = std::min(choices, std::max(shape.slots, 1));
  const int waves = (choices + width - 1) / width;
  const double more = one.decode_ms * (waves * (1 + shape.sharing * (width - 1)) - 1);
  one.decode_ms += more;
  one.total_ms += more;
  one.raw_total_ms += more;
  return one;
}

// Cached tokens that nobody minds to prefill again for a backend's first measurement.
constexpr int64_t kLittleToLose = 64;

Exclusion AvailabilityExclusion(Availability availability) {
  switch (availability) {
    case Availability::kReady:
    case Availability::kLoading:
    case Availability::kUnloaded:
      return Exclusion::kNone;
    case Availability::kDown:
      return Exclusion::kDown;
    case Availability::kBreakerOpen:
      return Exclusion::kBreakerOpen;
    case Availability::kDraining:
      return Exclusion::kDraining;
  }
  return Exclusion::kDown;
}

// A full queue matters only where the request would have to wait in it.
bool QueueFull(const BackendSnapshot& b) {
  const auto waiting = static_cast<int64_t>(b.queued.size());
  const auto slots = static_cast<size_t>(std::max(b.single_flight ? 1 : b.slots, 1));
  const bool starts_at_once =
      b.availability == Availability::kReady && b.queued.empty() && b.running.size() < slots;
  return waiting >= b.queue_limit && !starts_at_once;
}

// Tokens of the prompt that `match` symbols are.
int64_t TokensOf(const BackendPrompt& prompt, size_t symbols) {
  if (symbols == prompt.symbols.size()) return prompt.tokens;
  return static_cast<int64_t>(static_cast<double>(prompt.tokens) * static_cast<double>(symbols) /
                              static_cast<double>(prompt.symbols.size()));
}

// One decision in the making.
class Decider {
 public:
  Decider(const RouteRequest& request, const Snapshot& snapshot, const PrefixIndex& index,
          const Models& models, const Policy& policy, TieState& ties)
      : request_(request),
        snapshot_(snapshot),
        index_(index),
        models_(models),
        policy_(policy),
        ties_(ties) {}

  Decision Run() {
    Begin();
    for (size_t i = 0; i < snapshot_.backends.size(); ++i) Filter(i);
    PreferWholeAnswers();
    PreferWantedContext();
    for (size_t i = 0; i < snapshot_.backends.size(); ++i) {
      if (d_.candidates[i].exclusion == Exclusion::kNone) Estimate(i);
    }
    if (open_.empty()) {
      GiveUp();
    } else {
      Choose();
    }
    d_.reason = Explain(d_);
    return std::move(d_);
  }

 private:
  const BackendPrompt& prompt(size_t i) const {
    static constexpr BackendPrompt kNothing{};
    return i < request_.prompts.size() ? request_.prompts[i] : kNothing;
  }

  void Begin() {
    d_.id = request_.id;
    d_.time_ms = snapshot_.now_ms;
    d_.model = request_.model;
    d_.kind = request_.kind;
    d_.max_new_tokens = request_.max_new_tokens;
    d_.max_new_given = request_.max_new_given;
    d_.choices = request_.choices;
    d_.wanted_context = request_.wanted_context;
    d_.deadline_ms = request_.deadline_ms;
    d_.no_cache = request_.no_cache;
    d_.pinned = request_.pinned;
    d_.policy = Name(policy_);
    d_.objective = policy_.objective;
    d_.candidates.resize(snapshot_.backends.size());
    ++ties_.decisions;
    ++ties_.since_explored;
  }

  // What can be said before anything is predicted.
  void Filter(size_t i) {
    const BackendSnapshot& b = snapshot_.backends[i];
    Candidate& c = d_.candidates[i];
    c.name = b.name;
    c.running = static_cast<int64_t>(b.running.size());
    c.queued = static_cast<int64_t>(b.queued.size());
    c.queue_limit = b.queue_limit;
    c.estimated_tokens = prompt(i).estimated;
    c.have_tokens = b.context_tokens;
    const int64_t p = prompt(i).tokens;
    const ContextFit fit = FitContext(p, request_.max_new_tokens, b.context_tokens);
    c.context = fit.verdict;
    c.need_tokens = std::max<int64_t>(p, 0) + std::max<int64_t>(request_.max_new_tokens, 0);
    c.workload = MakeWorkload(p, fit.max_new_tokens, 0);
    if (!AnswersTo(b.models, request_.model)) {
      c.exclusion = Exclusion::kModel;
    } else if (!request_.pinned.empty() && b.name != request_.pinned) {
      c.exclusion = Exclusion::kPinned;
    } else if (policy_.kind == PolicyKind::kOnly && b.name != policy_.only) {
      c.exclusion = Exclusion::kPolicy;
    } else if (fit.verdict == ContextVerdict::kOverflow) {
      c.exclusion = Exclusion::kContext;
    } else if (const Exclusion e = AvailabilityExclusion(b.availability); e != Exclusion::kNone) {
      c.exclusion = e;
    } else if (QueueFull(b)) {
      c.exclusion = Exclusion::kQueueFull;
    }
  }

  // Where the client asked for g tokens, a backend that cuts them short is the last resort.
  void PreferWholeAnswers() {
    if (!request_.max_new_given) return;
    Prefer([](const Candidate& c) { return c.context == ContextVerdict::kFits; },
           Exclusion::kTruncates);
  }

  // A wish, as Ollama's num_ctx: what a context must hold is the prompt, and that was checked.
  void PreferWantedContext() {
    Prefer(
        [&](const Candidate& c) {
          return c.have_tokens == 0 || c.have_tokens >= request_.wanted_context;
        },
        Exclusion::kSmallContext);
  }

  // Those left that are not `good` are out where one that is good is left.
  template <class Good>
  void Prefer(const Good& good, Exclusion otherwise) {
    const auto left = [](const Candidate& c) { return c.exclusion == Exclusion::kNone; };
    auto& cs = d_.candidates;
    if (std::none_of(cs.begin(), cs.end(), [&](const auto& c) { return left(c) && good(c); })) {
      return;
    }
    for (Candidate& c : cs) {
      if (left(c) && !good(c)) c.exclusion = otherwise;
    }
  }

  void Estimate(size_t i) {
    const BackendSnapshot& b = snapshot_.backends[i];
    const BackendPrompt& text = prompt(i);
    BackendModels fallback;
    if (i >= models_.backends.size()) fallback.extended = PriorModel(b.kind);
    const BackendModels& models = i < models_.backends.size() ? models_.backends[i] : fallback;
    Candidate& c = d_.candidates[i];
    PolicyCandidate open;
    open.name = b.name;
    open.cache_known = request_.no_cache || (b.cache_reporting && !text.symbols.empty());

    const int64_t p = c.workload.prompt_tokens;
    const int64_t g = c.workload.max_new_tokens;
    if (!request_.no_cache && !text.symbols.empty() && p > 0) {
      const PrefixMatch match = index_.Match(b.id, text.symbols);
      c.workload = MakeWorkload(p, g, TokensOf(text, match.held));
      c.predicted_reuse = std::min(c.workload.cached_tokens, p - 1);
    }
    open.workload = c.workload;
    if (c.workload.cached_tokens > 0 && policy_.min_match_bytes > 0) {
      const double per_token =
          text.bytes > 0 ? static_cast<double>(text.bytes) / static_cast<double>(p) : 4.0;
      c.short_match_ignored = static_cast<double>(c.workload.cached_tokens) * per_token <
                              static_cast<double>(policy_.min_match_bytes);
      if (c.short_match_ignored) open.workload = MakeWorkload(p, g, 0);
    }

    const bool paper = FormOf(policy_.kind) == ModelForm::kPaper && models.paper.has_value();
    const QueueShape shape = ShapeOf(b);
    const auto predict = [&](const LatencyModel& model, const Workload& workload) {
      return ForChoices(Predict(model, workload), request_.choices, shape);
    };
    c.prediction = predict(paper ? *models.paper : models.extended, c.workload);
    open.extended = predict(models.extended, open.workload);
    if (models.paper) open.paper = predict(*models.paper, open.workload);

    const QueueWait whole = PredictQueue(shape, b.running, b.queued, c.prediction.total_ms);
    const double first_sharing_ms =
        whole.sharing_ms > 0
            ? PredictQueue(shape, b.running, b.queued, c.prediction.ttft_ms).sharing_ms
            : 0;
    c.queue_ms = whole.start_ms;
    c.sharing_ms = whole.sharing_ms;
    c.total_ms = c.queue_ms + c.sharing_ms + c.prediction.total_ms;
    c.ttft_ms = c.queue_ms + first_sharing_ms + c.prediction.ttft_ms;
    open.queue_ms =
        c.queue_ms + (policy_.objective == Objective::kTotal ? c.sharing_ms : first_sharing_ms);

    // A prior is a guess, and a guess turns nobody away.
    if (c.total_ms > request_.deadline_ms && c.prediction.source != ModelSource::kPrior) {
      c.exclusion = Exclusion::kDeadline;
      return;
    }
    open_.push_back(open);
    places_.push_back(i);
  }

  size_t Load(size_t open) const {
    const Candidate& c = d_.candidates[places_[open]];
    return static_cast<size_t>(c.running + c.queued);
  }
  uint64_t LastChosen(size_t open) const {
    const BackendId id = snapshot_.backends[places_[open]].id;
    return id < ties_.last_chosen.size() ? ties_.last_chosen[id] : 0;
  }
  bool Measured(size_t open) const { return open_[open].extended.source != ModelSource::kPrior; }

  void Choose() {
    ranks_.resize(open_.size());
    d_.notes = Rank({policy_, models_, open_}, ranks_);
    for (size_t i = 0; i < open_.size(); ++i)
      d_.candidates[places_[i]].score_ms = ranks_[i].score_ms;

    size_t best = 0;
    for (size_t i = 1; i < open_.size(); ++i) {
      if (ranks_[i].tier < ranks_[best].tier ||
          (ranks_[i].tier == ranks_[best].tier && ranks_[i].score_ms < ranks_[best].score_ms)) {
        best = i;
      }
    }
    d_.reason_code = CodeOf(best);
    size_t chosen = best;
    if (d_.reason_code == ReasonCode::kFastest || ranks_[best].tier == 2) {
      if (const std::optional<size_t> other = Exploring(best)) {
        chosen = *other;
        d_.reason_code = ReasonCode::kExploring;
        ties_.since_explored = 0;
      } else {
        chosen = BreakTie(best);
      }
    }
    d_.status = DecisionStatus::kRouted;
    d_.chosen = places_[chosen];
    const BackendId id = snapshot_.backends[places_[chosen]].id;
    if (id >= ties_.last_chosen.size()) ties_.last_chosen.resize(size_t{id} + 1);
    ties_.last_chosen[id] = ties_.decisions;
  }

  ReasonCode CodeOf(size_t best) const {
    if (!request_.pinned.empty()) return ReasonCode::kPinnedBackend;
    if (policy_.kind == PolicyKind::kOnly) return ReasonCode::kRule;
    if (open_.size() == 1) return ReasonCode::kOnlyCandidate;
    const bool by_model =
        policy_.kind == PolicyKind::kExtended ||
        (policy_.kind == PolicyKind::kPcar && (d_.notes & kNoteFellBackToPsr) == 0) ||
        (d_.notes & kNoteFellBackToModel) != 0;
    if (by_model) return ReasonCode::kFastest;
    return ranks_[best].tier == 0 ? ReasonCode::kRule : ReasonCode::kRuleFallback;
  }

  // Scores as close as the margin are equal: spread over them.
  size_t BreakTie(size_t best) {
    // The paper's rule is the lowest prediction, however close the next is.
    const double share = policy_.kind == PolicyKind::kPcar ? 0 : policy_.tie_margin;
    const double margin = share * std::abs(ranks_[best].score_ms);
    size_t chosen = best;
    bool tied = false, by_load = false;
    for (size_t i = 0; i < open_.size(); ++i) {
      if (i == best || ranks_[i].tier != ranks_[best].tier ||
          ranks_[i].score_ms > ranks_[best].score_ms + margin || Measured(i) != Measured(best)) {
        continue;
      }
      tied = true;
      if (Load(i) != Load(chosen)) {
        by_load = true;
        if (Load(i) < Load(chosen)) chosen = i;
      } else if (LastChosen(i) < LastChosen(chosen) ||
                 (LastChosen(i) == LastChosen(chosen) && i < chosen)) {
        chosen = i;
      }
    }
    if (tied && d_.reason_code == ReasonCode::kFastest) {
      d_.reason_code = by_load ? ReasonCode::kTieLeastLoaded : ReasonCode::kTieLeastRecent;
    }
    return chosen;
  }

  // See Policy::explore_every.
  std::optional<size_t> Exploring(size_t best) const {
    if (policy_.kind != PolicyKind::kExtended || policy_.explore_every <= 0 || !Measured(best) ||
        std::isfinite(request_.deadline_ms) ||
        ties_.since_explored < static_cast<uint64_t>(policy_.explore_every)) {
      return std::nullopt;
    }
    std::optional<size_t> found;
    for (size_t i = 0; i < open_.size(); ++i) {
      // A short prefix that everybody shares is no loss; a conversation's history is.
      const Workload& work = open_[i].workload;
      if (work.cached_tokens > kLittleToLose && 2 * work.cached_tokens > work.prompt_tokens) {
        return std::nullopt;
      }
      const bool idle =
          Load(i) == 0 && snapshot_.backends[places_[i]].availability == Availability::kReady;
      if (!Measured(i) && idle && (!found || LastChosen(i) < LastChosen(*found))) found = i;
    }
    return found;
  }

  // Names the most useful cause.
  void GiveUp() {
    bool serves = false, considered = false, all_overflow = true, queue_full = false,
         deadline = false;
    int64_t least_prompt = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < d_.candidates.size(); ++i) {
      const Candidate& c = d_.candidates[i];
      if (c.exclusion == Exclusion::kModel) continue;
      serves = true;
      if (c.exclusion == Exclusion::kPinned || c.exclusion == Exclusion::kPolicy) continue;
      considered = true;
      if (c.exclusion == Exclusion::kContext) {
        least_prompt = std::min(least_prompt, c.workload.prompt_tokens);
        d_.n_ctx = std::max(d_.n_ctx, c.have_tokens);
        continue;
      }
      all_overflow = false;
      if (c.exclusion == Exclusion::kQueueFull) {
        const BackendSnapshot& b = snapshot_.backends[i];
        const int64_t retry = RetryAfterSeconds(ShapeOf(b), b.running);
        d_.retry_after_s = queue_full ? std::min(d_.retry_after_s, retry) : retry;
        queue_full = true;
      }
      if (c.exclusion == Exclusion::kDeadline) {
        d_.best_total_ms = deadline ? std::min(d_.best_total_ms, c.total_ms) : c.total_ms;
        deadline = true;
      }
    }
    if (!serves) {
      d_.status = DecisionStatus::kUnknownModel;
    } else if (considered && all_overflow) {
      d_.status = DecisionStatus::kContextOverflow;
      d_.n_prompt_tokens = least_prompt;
      return;
    } else if (queue_full) {
      d_.status = DecisionStatus::kQueueFull;
    } else if (deadline) {
      d_.status = DecisionStatus::kDeadline;
    } else {
      d_.status = DecisionStatus::kUnavailable;
    }
    d_.n_ctx = 0;
  }

  const RouteRequest& request_;
  const Snapshot& snapshot_;
  const PrefixIndex& index_;
  const Models& models_;
  const Policy& policy_;
  TieState& ties_;
  Decision d_;
  std::vector<PolicyCandidate> open_;  // candidates that passed every filter
  std::vector<size_t> places_;         // their places in the snapshot
  std::vector<PolicyRank> ranks_;
};

}  // namespace

bool AnswersTo(std::span<const std::string> models, std::string_view model) {
  return model.empty() || models.empty() ||
         std::find(models.begin(), models.end(), model) != models.end();
}

Decision Decide(const RouteRequest& request, const Snapshot& snapshot, const PrefixIndex& index,
                const Models& models, const Policy& policy, TieState& ties) {
  return Decider(request, snapshot, index, models, policy, ties).Run();
}

double TimeoutMs(const Candidate& candidate, const TimeoutOptions& options) {
  const bool unmeasured =
      candidate.prediction.source == ModelSource::kPrior || candidate.prediction.outside != 0;
  const double factor = unmeasured ? options.unmeasured_factor : options.factor;
  return std::max(options.floor_ms, factor * candidate.total_ms);
}

}  // namespace parallax::router
