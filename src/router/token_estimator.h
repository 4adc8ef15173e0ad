// TokenEstimator: how many tokens a text has, where no tokenizer answers.
//
// Role:       the server asks it for backends without /tokenize and teaches it from usage counts.
// Ownership:  owns its models, under 200 bytes each; at most kMaxModels (the least used goes).
// Threads:    one caller at a time; Estimate is const.
// Cost:       under 1 us.
// Invariants: an estimate is finite, >= 0, and 0 only for an empty text.
// Source:     tokens = ascii / a + other / b, a and b learned by least squares of the relative
//             error with forgetting. Bytes outside ASCII count apart: a Chinese character is 3 bytes and
//             about one token, where 4 bytes of English are one.
// Example:
//   TokenEstimator estimator;
//   estimator.Observe("m", CountBytes(prompt), usage.prompt_tokens);
//   TokenEstimate e = estimator.Estimate("m", CountBytes(text));   // e.tokens, e.error_pct
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace parallax::router {

struct ByteCounts {
  int64_t ascii = 0;
  int64_t other = 0;  // bytes >= 0x80
};
ByteCounts CountBytes(std::string_view text);

// Before anything is observed: bytes a token. 4 is the usual figure for English in BPE
// vocabularies.
inline constexpr double kPriorAsciiBytesPerToken = 4.0;
inline constexpr double kPriorOtherBytesPerToken = 3.0;

struct TokenEstimate {
  int64_t tokens = 0;
  double error_pct = 0;  // running mean of |estimate - tokens| / tokens; 100 before any observation
  int64_t observations = 0;
};

class TokenEstimator {
 public:
  static constexpr size_t kMaxModels = 256;

  // Pairs with no bytes or no tokens are ignored.
  void Observe(std::string_view model, const ByteCounts& bytes, int64_t tokens);
  TokenEstimate Estimate(std::string_view model, const ByteCounts& bytes) const;

  size_t size() const { return models_.size(); }

 private:
  struct State {
    double ascii_rate;  // tokens a byte
    double other_rate;
    double aa, ao, oo, at, ot;  // sums of the normal equations
    double error;               // fraction
    int64_t observations = 0;
    uint64_t last_use = 0;
  };
  static State Prior();
  static double Tokens(const State& state, const ByteCounts& bytes);

  std::map<std::string, State, std::less<>> models_;
  uint64_t uses_ = 0;
};

}  // namespace parallax::router
