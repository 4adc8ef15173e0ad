// The predicted latency of a workload on one backend: the paper's linear form, and the
// extended one.
//
// Role:       scored by the policies; made by a prior, a fit or OnlineFit; kept in model files.
// Ownership:  values.
// Threads:    pure.
// Cost:       under 20 ns a prediction.
// Invariants: prefill_ms, decode_ms, total_ms and ttft_ms are finite and never negative (0 where
//             the inputs are not finite), and prefill_ms + decode_ms = total_ms. raw_total_ms is the
//             bare sum: the paper's intercepts are negative, so it may be too. Compare raw totals
//             when two backends use the paper's form: both clamped totals may be 0.
// Source:     kPaper: papers/psr-pcar.txt, equation 8. kExtended: design 4.2.
// Example:
//   LatencyModel m = PriorModel(BackendKind::kLlamaServer);
//   Prediction t = Predict(m, MakeWorkload(1024, 32, 0));
//   if (t.outside != 0) { /* not calibrated there: say so */ }
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "router/backend_kind.h"
#include "router/workload.h"

namespace parallax::router {

enum class ModelForm : uint8_t {
  kPaper,     // T = b0 + b1 p_eff + b2 g + b3 p g + b4 p_cache + b5 I(c)
  kExtended,  // T = b0 + b1 p_eff + b2 A + b3 g + b4 D + b5 I(c)
};
enum class ModelSource : uint8_t {
  kPrior,   // nobody has measured this backend: a stated guess
  kFitted,  // from a measurement campaign, frozen
  kOnline,  // from the requests that passed, whatever it started from
};

std::string_view Name(ModelForm form);      // "paper", "extended"
std::string_view Name(ModelSource source);  // "prior", "fitted", "online"

// Closed range of tokens; empty where max < min.
struct TokenRange {
  int64_t min = 0;
  int64_t max = -1;
  bool empty() const { return max < min; }
  bool Contains(int64_t n) const { return n >= min && n <= max; }
  void Extend(int64_t n) {
    if (empty()) {
      min = max = n;
    } else {
      min = n < min ? n : min;
      max = n > max ? n : max;
    }
  }
  bool operator==(const TokenRange&) const = default;
};

struct LatencyModel {
  ModelForm form = ModelForm::kExtended;
  std::array<double, 6> beta{};  // in the order of ModelForm's formulas; milliseconds
  ModelSource source = ModelSource::kPrior;
  TokenRange p, g, p_cache;  // what was measured; empty: nothing
  int64_t observations = 0;

  bool operator==(const LatencyModel&) const = default;
};

// Bits of Prediction::outside.
inline constexpr uint8_t kOutsidePrompt = 1;
inline constexpr uint8_t kOutsideGenerate = 2;
inline constexpr uint8_t kOutsideCached = 4;

struct Prediction {
  double prefill_ms = 0;    // terms of p_eff, A, p_cache, I(c) and the intercept
  double decode_ms = 0;     // terms of g
  double total_ms = 0;      // max(raw_total_ms, 0)
  double raw_total_ms = 0;  // as the formula says
  double ttft_ms = 0;       // prefill and the first generated token
  uint8_t outside = 0;      // kOutside...: which feature the model was not calibrated for
  ModelForm form = ModelForm::kExtended;
  ModelSource source = ModelSource::kPrior;

  bool operator==(const Prediction&) const = default;
};

inline constexpr double kUnpredictableMs = 1e12;  // 30 years

Prediction Predict(const LatencyModel& model, const Workload& workload);

// The value of each coefficient's feature, in the order of `beta`.
std::array<double, 6> Features(ModelForm form, const Workload& workload);

// A conservative guess for a backend that nobody has measured, in the extended form; the reasoning
// is with its numbers, in latency_model.cc.
LatencyModel PriorModel(BackendKind kind);

// The extended form that comes closest (least squares of the relative error, non-negative
// coefficients) to a paper-form model on the grid of its calibrated range; a model that is extended
// already comes back unchanged. This is how OnlineFit and `extended` start from the paper's
// table 3.
LatencyModel ToExtended(const LatencyModel& model);

}  // namespace parallax::router
