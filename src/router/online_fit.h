// Learns a backend's extended latency model from the requests that pass, one at a time.
//
// Role:       the server holds one for each backend (and model) and publishes model() to Decide.
// Ownership:  owns its state, about 4 KiB; copyable.
// Threads:    one caller at a time.
// Cost:       a few microseconds an observation; model() is a reference.
// Invariants: coefficients are finite and never negative, whatever is observed. A model that
//             started from a prior stays ModelSource::kPrior for `warm_up` observations; then it is
//             kOnline, as one that started from a fit is after its first. From there on, one
//             observation moves no prediction for a recently seen workload by more than max_step,
//             and none leaves [1/max_drift, max_drift] times a slow average of the model (so a
//             noisy minute cannot wreck it, while a lasting change gets through).
// Source:     recursive least squares with exponential forgetting, in information form, on the
//             extended form of design 4.2; rows weighted by 1/T (relative error), residuals clipped
//             after Huber (1964); non-negative by an active-set solve of the 6 x 6 system.
// Example:
//   OnlineFit fit(PriorModel(BackendKind::kLlamaServer));
//   fit.Observe({.workload = MakeWorkload(p, generated, reused), .total_ms = 812,
//                .prefill_ms = 640, .decode_ms = 160});
//   models.backends[i].extended = fit.model();
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "router/latency_model.h"
#include "router/least_squares.h"

namespace parallax::router {

// One finished request. The workload's max_new_tokens is what was generated (not the budget), its
// cached_tokens what the backend says that it reused.
struct Observation {
  Workload workload;
  double total_ms = 0;                    // from dispatch to the last byte, without queueing
  std::optional<double> prefill_ms = {};  // both from the backend's own timings, or neither
  std::optional<double> decode_ms = {};
};

struct OnlineFitOptions {
  double forgetting = 0.995;  // an observation's weight falls to 1/e after 200 later ones
  double max_step = 0.10;     // largest relative change of a prediction by one observation
  double max_drift = 1.5;     // largest factor between a prediction and the slow average's
  double drift_rate = 0.01;   // how far the slow average follows with each observation
  int warm_up = 8;            // observations before the bounds hold, where it started from a prior
  double huber = 1.345;       // in units of the residual's running scale: 95% efficient if normal
};

class OnlineFit {
 public:
  // Starts from a prior or from a fitted model (a paper-form model is converted by ToExtended).
  explicit OnlineFit(const LatencyModel& start, const OnlineFitOptions& options = {});

  // Returns false and learns nothing where a time is negative, zero in total or not finite, or the
  // workload does not satisfy MakeWorkload's invariants.
  bool Observe(const Observation& observation);

  const LatencyModel& model() const { return model_; }
  // Median of |T - predicted| / T over the last kErrors observations, each prediction made before its
  // request was learned: neither the first guesses nor one bad minute tell what to expect now. 0
  // before the first.
  double relative_error() const;

 private:
  static constexpr size_t kErrors = 31;
  static constexpr size_t kReferences = 32;  // workloads on which step and drift are bounded

  void AddRow(const Terms& features, double measured_ms, double* residual_scale);
  void Publish();

  OnlineFitOptions options_;
  LatencyModel model_;
  NormalEquations system_;
  Terms typical_{};         // size of each coefficient as known at the start
  Terms slow_{};            // coefficients of the slow average
  double total_scale_ = 0;  // running medians of |ln(T / predicted)|
  double prefill_scale_ = 0;
  double decode_scale_ = 0;
  std::array<double, kErrors> errors_{};         // the last ones
  int64_t learned_ = 0;                          // observations of this object
  int64_t warm_up_ = 0;                          // of which so many move the model freely
  std::array<Terms, kReferences> references_{};  // features of the last workloads, a ring
};

}  // namespace parallax::router
