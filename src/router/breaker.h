// Breaker: keeps requests from a backend that keeps failing, and tries it again now and then.
//
// Role:       the server holds one for each backend and copies its state into the snapshot.
// Ownership:  a value.
// Threads:    one caller at a time.
// Cost:       a few comparisons.
// Invariants: opens after `failures_to_open` failures in a row; while open allows nothing; after a
//             backoff (doubled with every failed trial, capped) lets one trial through (half open);
//             a success closes it. Context overflows, client errors and cancelled clients say
//             nothing about the backend and never count. Where the clock has jumped back behind
//             the opening, a trial is allowed at once.
// Example:
//   if (!breaker.Allows(now)) return Unavailable(breaker.RetryInMs(now));
//   breaker.OnDispatch(now);
//   breaker.OnOutcome(BackendOutcome::kConnectFailure, now);
#pragma once

#include <cstdint>
#include <string_view>

namespace parallax::router {

enum class BackendOutcome : uint8_t {
  kSuccess,
  kConnectFailure,       // refused, unreachable, reset before anything was sent
  kDiedBeforeFirstByte,  // closed or answered 5xx before the answer began
  kDiedMidStream,
  kTimeout,
  kGarbage,          // an answer that is no answer: HTML, broken JSON, an empty stream
  kContextOverflow,  // neutral
  kClientError,      // neutral: the backend answered 4xx
  kClientCancelled,  // neutral
};
bool IsFailure(BackendOutcome outcome);
std::string_view Name(BackendOutcome outcome);

enum class BreakerState : uint8_t { kClosed, kOpen, kHalfOpen };
std::string_view Name(BreakerState state);  // "closed", "open", "half-open"

struct BreakerOptions {
  int failures_to_open = 3;
  double backoff_ms = 1'000;
  double max_backoff_ms = 60'000;
};

class Breaker {
 public:
  explicit Breaker(const BreakerOptions& options = {}) : options_(options) {}

  // kHalfOpen once the backoff has passed, whether or not the trial is under way.
  BreakerState State(double now_ms) const;
  // Whether a request may be sent now; half open, only while no trial is under way.
  bool Allows(double now_ms) const;
  // A request is sent. Half open, it is the trial.
  void OnDispatch(double now_ms);
  // How a request that was dispatched has ended. A trial that ends neutrally frees its place.
  void OnOutcome(BackendOutcome outcome, double now_ms);
  // The backend was restarted or probed healthy: forget.
  void Reset();

  // Until the next trial is allowed; 0 where requests are allowed.
  double RetryInMs(double now_ms) const;
  int consecutive_failures() const { return failures_; }
  int64_t times_opened() const { return times_opened_; }

 private:
  void Open(double now_ms);

  BreakerOptions options_;
  bool open_ = false;
  bool trial_ = false;  // half open, with a trial under way
  int failures_ = 0;    // in a row
  double opened_ms_ = 0;
  double backoff_ms_ = 0;  // of the present opening
  int64_t times_opened_ = 0;
};

}  // namespace parallax::router
