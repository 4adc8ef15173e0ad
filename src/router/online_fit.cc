#include "router/online_fit.h"

#include <algorithm>
#include <cmath>

namespace parallax::router {
namespace {

// What a starting model is worth in observations: a prior next to nothing, so that the first
// requests decide; a fit as much as a few dozen requests.
constexpr double kPriorWorth = 0.02;
constexpr double kFittedWorth = 20;
// What is left of the belief in the present value of a coefficient that nothing has determined for
// long, again in observations. It keeps the system regular and the coefficient where it is.
constexpr double kFloorWorth = 1e-3;

// Timers, scheduling and the network add a few milliseconds of noise of their own: a short time is
// not known to the same relative accuracy as a long one.
constexpr double kNoiseFloorMs = 10;
// A row is divided by its time, so a time that is absurdly short for its workload would weigh
// without bound: it counts as if it had taken this share of the prediction. Priors are off by less.
constexpr double kGreatestLead = 20;
// A prediction may always move by this much, so that one of 0 ms can move at all.
constexpr double kStepFloorMs = 1;

// The running median of |ln(T / predicted)| moves by this factor with each observation.
constexpr double kScaleStep = 1.05;
constexpr double kLeastScale = 0.02;    // measurements are no better than this
constexpr double kGreatestScale = 3.0;  // a factor 20
constexpr double kPriorScale = 2.0;     // a prior may be off by a factor 7: clip nothing at first
constexpr double kFittedScale = 0.3;

bool Valid(const Observation& o) {
  const Workload& w = o.workload;
  if (w != MakeWorkload(w.prompt_tokens, w.max_new_tokens, w.cached_tokens)) return false;
  if (!(o.total_ms > 0) || o.total_ms >= kUnpredictableMs) return false;
  if (o.prefill_ms.has_value() != o.decode_ms.has_value()) return false;
  for (const std::optional<double>& part : {o.prefill_ms, o.decode_ms}) {
    if (part && (!(*part >= 0) || *part >= kUnpredictableMs)) return false;
  }
  return true;
}

}  // namespace

OnlineFit::OnlineFit(const LatencyModel& start, const OnlineFitOptions& options)
    : options_(options), model_(ToExtended(start)) {
  const bool prior = model_.source == ModelSource::kPrior;
  warm_up_ = prior ? options_.warm_up : 0;
  total_scale_ = prefill_scale_ = decode_scale_ = prior ? kPriorScale : kFittedScale;
  const LatencyModel guess = PriorModel(BackendKind::kLlamaServer);
  for (size_t i = 0; i < kTerms; ++i) {
    double& beta = model_.beta[i];
    if (!(beta >= 0) || beta >= kUnpredictableMs) beta = 0;
    // A coefficient of 0 may turn out not to be: give it the size of a tenth of the usual one, and
    // a hit's fixed cost that of the intercept.
    typical_[i] = std::max(beta, (i == 5 ? guess.beta[0] : guess.beta[i]) / 10);
    const double worth = prior ? kPriorWorth : kFittedWorth;
    system_.AddBelief(i, beta, worth / (typical_[i] * typical_[i]));
  }
  slow_ = model_.beta;
}

// One measurement of `features`' part of the latency, in units of relative error.
void OnlineFit::AddRow(const Terms& features, double measured_ms, double* residual_scale) {
  const double predicted = Dot(features, model_.beta);
  const double residual =
      std::abs(std::log((measured_ms + kNoiseFloorMs) / (predicted + kNoiseFloorMs)));
  const double clip = options_.huber * *residual_scale;
  const double trust = residual > clip ? clip / residual : 1.0;
  *residual_scale = std::clamp(
      residual > *residual_scale ? *residual_scale * kScaleStep : *residual_scale / kScaleStep,
      kLeastScale, kGreatestScale);
  const double unit = std::max(measured_ms, predicted / kGreatestLead) + kNoiseFloorMs;
  system_.AddRow(features, measured_ms, trust / (unit * unit));
}

double OnlineFit::relative_error() const {
  const size_t known = std::min(static_cast<size_t>(learned_), kErrors);
  if (known == 0) return 0;
  std::array<double, kErrors> sorted = errors_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((known - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(known));
  return *middle;
}

bool OnlineFit::Observe(const Observation& observation) {
  if (!Valid(observation)) return false;
  const Workload& w = observation.workload;
  const Terms x = Features(ModelForm::kExtended, w);

  const double miss =
      std::min(std::abs(observation.total_ms - Dot(x, model_.beta)) / observation.total_ms, 1e6);
  errors_[static_cast<size_t>(learned_) % kErrors] = miss;

  // Forget, towards the belief that whatever is not determined stays as it is.
  system_.Scale(options_.forgetting);
  for (size_t i = 0; i < kTerms; ++i) {
    system_.AddBelief(i, model_.beta[i],
                      (1 - options_.forgetting) * kFloorWorth / (typical_[i] * typical_[i]));
  }
  if (observation.prefill_ms) {
    AddRow({x[0], x[1], x[2], 0, 0, x[5]}, *observation.prefill_ms, &prefill_scale_);
    if (w.max_new_tokens > 0) {
      AddRow({0, 0, 0, x[3], x[4], 0}, *observation.decode_ms, &decode_scale_);
    }
  } else {
    AddRow(x, observation.total_ms, &total_scale_);
  }

  references_[static_cast<size_t>(learned_) % kReferences] = x;
  ++learned_;
  ++model_.observations;
  model_.p.Extend(w.prompt_tokens);
  model_.g.Extend(w.max_new_tokens);
  model_.p_cache.Extend(w.cached_tokens);
  Publish();
  if (learned_ >= warm_up_) model_.source = ModelSource::kOnline;
  return true;
}

// Moves the published coefficients towards the solution, as far as the bounds allow: predictions
// are linear on the way, so the largest admissible share of the way is known for each workload.
void OnlineFit::Publish() {
  const Terms goal = SolveNonNegative(system_);
  if (learned_ <= warm_up_) {
    model_.beta = slow_ = goal;
    return;
  }
  double share = 1;
  const size_t known = std::min(static_cast<size_t>(learned_), kReferences);
  for (size_t i = 0; i < known; ++i) {
    const double now = Dot(references_[i], model_.beta);
    const double way = Dot(references_[i], goal) - now;
    const double slow = Dot(references_[i], slow_);
    // A prediction that is already outside (the slow average moves too) may only come back.
    const double low =
        std::max(now * (1 - options_.max_step), std::min(now, slow / options_.max_drift));
    const double high =
        std::min(now * (1 + options_.max_step), std::max(now, slow * options_.max_drift));
    if (way > 0) share = std::min(share, (high - now + kStepFloorMs) / way);
    if (way < 0) share = std::min(share, (now - low + kStepFloorMs) / -way);
  }
  for (size_t i = 0; i < kTerms; ++i) {
    model_.beta[i] = std::max(model_.beta[i] + share * (goal[i] - model_.beta[i]), 0.0);
    slow_[i] += options_.drift_rate * (model_.beta[i] - slow_[i]);
  }
}

}  // namespace parallax::router
