#include "router/latency_model.h"

#include <algorithm>
#include <cmath>

#include "router/least_squares.h"

namespace parallax::router {
namespace {

double Indicator(const Workload& w) { return w.cache == CacheState::kNone ? 0 : 1; }

bool Finite(double v) { return std::abs(v) <= kUnpredictableMs; }  // false for NaN

// `count` values from the range, its ends included, evenly in their logarithm (from 1 up).
std::array<int64_t, 6> Spread(const TokenRange& range) {
  std::array<int64_t, 6> values{};
  const double low = std::log(static_cast<double>(std::max<int64_t>(range.min, 1)));
  const double high = std::log(static_cast<double>(std::max<int64_t>(range.max, 1)));
  for (size_t i = 0; i < values.size(); ++i) {
    const double at = low + (high - low) * static_cast<double>(i) / (values.size() - 1);
    values[i] = std::llround(std::exp(at));
  }
  return values;
}

}  // namespace

std::string_view Name(CacheState state) {
  switch (state) {
    case CacheState::kNone:
      return "none";
    case CacheState::kPrefix:
      return "prefix";
    case CacheState::kExact:
      return "exact";
  }
  return "?";
}

std::string_view Name(ModelForm form) { return form == ModelForm::kPaper ? "paper" : "extended"; }

std::string_view Name(ModelSource source) {
  switch (source) {
    case ModelSource::kPrior:
      return "prior";
    case ModelSource::kFitted:
      return "fitted";
    case ModelSource::kOnline:
      return "online";
  }
  return "?";
}

std::array<double, 6> Features(ModelForm form, const Workload& w) {
  const double p_eff = static_cast<double>(w.Effective());
  const double g = static_cast<double>(w.max_new_tokens);
  if (form == ModelForm::kPaper) {
    return {1,
            p_eff,
            g,
            static_cast<double>(w.prompt_tokens) * g,
            static_cast<double>(w.cached_tokens),
            Indicator(w)};
  }
  return {1, p_eff, w.AttentionWork(), g, w.DecodeWork(), Indicator(w)};
}

Prediction Predict(const LatencyModel& model, const Workload& w) {
  const std::array<double, 6> x = Features(model.form, w);
  const std::array<double, 6>& b = model.beta;
  // Which terms are decoding's.
  const auto [d0, d1] = model.form == ModelForm::kPaper ? std::pair{2, 3} : std::pair{3, 4};
  const double decode = x[d0] * b[d0] + x[d1] * b[d1];
  double prefill = 0;
  for (int i = 0; i < 6; ++i) {
    if (i != d0 && i != d1) prefill += x[i] * b[i];
  }
  Prediction t;
  t.form = model.form;
  t.source = model.source;
  if (!model.p.Contains(w.prompt_tokens)) t.outside |= kOutsidePrompt;
  if (!model.g.Contains(w.max_new_tokens)) t.outside |= kOutsideGenerate;
  if (!model.p_cache.Contains(w.cached_tokens)) t.outside |= kOutsideCached;
  if (!Finite(prefill) || !Finite(decode)) {
    t.prefill_ms = t.total_ms = t.raw_total_ms = t.ttft_ms = kUnpredictableMs;
    return t;
  }
  t.raw_total_ms = prefill + decode;
  t.total_ms = std::max(t.raw_total_ms, 0.0);
  // A negative intercept may outweigh the prefill: then decoding is all there is.
  t.prefill_ms = std::clamp(prefill, 0.0, t.total_ms);
  t.decode_ms = t.total_ms - t.prefill_ms;
  if (w.max_new_tokens > 0) {
    const std::array<double, 6> one =
        Features(model.form, MakeWorkload(w.prompt_tokens, /*g=*/1, w.cached_tokens));
    const double first = std::clamp(one[d0] * b[d0] + one[d1] * b[d1], 0.0, t.decode_ms);
    t.ttft_ms = t.prefill_ms + first;
  } else {
    t.ttft_ms = t.prefill_ms;
  }
  return t;
}

// The slow end of what the router is used for: a 1.5B model, 4 bits, on the four fast cores of an
// RK3588 prefills a token in 25 ms and decodes one in 59 ms (papers/psr-pcar.txt, table 3, CPU
// column, rounded), reading 0.014 ms more for each token of context. A faster machine is learned
// within a few requests; until then waits and deadlines err to the safe side. A server of unknown
// hardware gets the same numbers, so that cold backends tie and are tried in turn. The NPU column
// (11 and 149 ms, 0.033) serves for rkllm. The attention rate is 3e-4 of the prefill rate, the
// ratio measured for small models on x86 (2.924 ms a token against 0.000895 ms a visited pair). The
// intercept covers the HTTP exchange and one processing step of the rest of a cached prompt; a
// hit's extra cost is taken to be none.
LatencyModel PriorModel(BackendKind kind) {
  LatencyModel m;
  switch (kind) {
    case BackendKind::kLlamaServer:
    case BackendKind::kOpenAi:
      m.beta = {50, 25, 0.0075, 59, 0.014, 0};
      break;
    case BackendKind::kRkllm:
      m.beta = {50, 11, 0.0033, 149, 0.033, 0};
      break;
  }
  return m;
}

LatencyModel ToExtended(const LatencyModel& model) {
  if (model.form == ModelForm::kExtended) return model;
  NormalEquations system;
  for (int64_t p : Spread(model.p)) {
    for (int64_t g : Spread(model.g)) {
      for (int quarter = 0; quarter <= 4; ++quarter) {
        const Workload w = MakeWorkload(p, g, p * quarter / 4);
        const double t = Predict(model, w).raw_total_ms;
        if (!(t > 0) || t >= kUnpredictableMs) continue;  // the paper's form is no guide there
        system.AddRow(Features(ModelForm::kExtended, w), t, 1 / (t * t));
      }
    }
  }
  LatencyModel extended = model;
  extended.form = ModelForm::kExtended;
  extended.beta = SolveNonNegative(system);
  return extended;
}

}  // namespace parallax::router
