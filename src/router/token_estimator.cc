#include "router/token_estimator.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace parallax::router {
namespace {

constexpr double kForgetting = 0.99;  // a pair's weight falls to 1/e after 100 later ones
// What the prior is worth, in pairs of one class of bytes; a class that is never seen keeps it.
constexpr double kPriorWorth = 0.1;
constexpr double kErrorWindow = 50;
// The longest token of common vocabularies is about this many bytes of running text.
constexpr double kLeastRate = 1.0 / 16;
constexpr double kGreatestRate = 2.0;  // byte fallback gives one a byte; templates add some

}  // namespace

ByteCounts CountBytes(std::string_view text) {
  ByteCounts counts;
  for (char c : text) counts.other += static_cast<unsigned char>(c) >> 7;
  counts.ascii = static_cast<int64_t>(text.size()) - counts.other;
  return counts;
}

TokenEstimator::State TokenEstimator::Prior() {
  State s{};
  s.ascii_rate = 1 / kPriorAsciiBytesPerToken;
  s.other_rate = 1 / kPriorOtherBytesPerToken;
  s.error = 1;
  return s;
}

double TokenEstimator::Tokens(const State& s, const ByteCounts& bytes) {
  return s.ascii_rate * static_cast<double>(std::max<int64_t>(bytes.ascii, 0)) +
         s.other_rate * static_cast<double>(std::max<int64_t>(bytes.other, 0));
}

void TokenEstimator::Observe(std::string_view model, const ByteCounts& bytes, int64_t tokens) {
  if (tokens <= 0 || bytes.ascii < 0 || bytes.other < 0 || bytes.ascii + bytes.other <= 0) return;
  auto it = models_.find(model);
  if (it == models_.end()) {
    if (models_.size() >= kMaxModels) {
      models_.erase(std::min_element(
          models_.begin(), models_.end(),
          [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
    }
    it = models_.emplace(std::string(model), Prior()).first;
  }
  State& s = it->second;
  s.last_use = ++uses_;

  const double t = static_cast<double>(tokens);
  const double miss = std::min(std::abs(Tokens(s, bytes) - t) / t, 100.0);
  s.error += (miss - s.error) / std::min(static_cast<double>(s.observations + 1), kErrorWindow);
  ++s.observations;

  // Least squares of (tokens predicted - t) / t.
  const double a = static_cast<double>(bytes.ascii) / t;
  const double o = static_cast<double>(bytes.other) / t;
  s.aa = kForgetting * s.aa + a * a;
  s.ao = kForgetting * s.ao + a * o;
  s.oo = kForgetting * s.oo + o * o;
  s.at = kForgetting * s.at + a;
  s.ot = kForgetting * s.ot + o;

  // The prior as one more weak pair of each class.
  const double aa = s.aa + kPriorWorth * kPriorAsciiBytesPerToken * kPriorAsciiBytesPerToken;
  const double oo = s.oo + kPriorWorth * kPriorOtherBytesPerToken * kPriorOtherBytesPerToken;
  const double at = s.at + kPriorWorth * kPriorAsciiBytesPerToken;
  const double ot = s.ot + kPriorWorth * kPriorOtherBytesPerToken;
  const double determinant = aa * oo - s.ao * s.ao;  // > 0: the weak pairs see to that
  s.ascii_rate = std::clamp((at * oo - ot * s.ao) / determinant, kLeastRate, kGreatestRate);
  s.other_rate = std::clamp((ot * aa - at * s.ao) / determinant, kLeastRate, kGreatestRate);
}

TokenEstimate TokenEstimator::Estimate(std::string_view model, const ByteCounts& bytes) const {
  const auto it = models_.find(model);
  const State s = it == models_.end() ? Prior() : it->second;
  TokenEstimate estimate;
  estimate.observations = s.observations;
  estimate.error_pct = 100 * s.error;
  const double tokens = Tokens(s, bytes);
  estimate.tokens = std::llround(std::min(tokens, 1e15));
  if (bytes.ascii + bytes.other > 0) estimate.tokens = std::max<int64_t>(estimate.tokens, 1);
  return estimate;
}

}  // namespace parallax::router
