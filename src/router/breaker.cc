#include "router/breaker.h"

#include <algorithm>

namespace parallax::router {

bool IsFailure(BackendOutcome outcome) {
  switch (outcome) {
    case BackendOutcome::kConnectFailure:
    case BackendOutcome::kDiedBeforeFirstByte:
    case BackendOutcome::kDiedMidStream:
    case BackendOutcome::kTimeout:
    case BackendOutcome::kGarbage:
      return true;
    case BackendOutcome::kSuccess:
    case BackendOutcome::kContextOverflow:
    case BackendOutcome::kClientError:
    case BackendOutcome::kClientCancelled:
      return false;
  }
  return false;
}

std::string_view Name(BackendOutcome outcome) {
  switch (outcome) {
    case BackendOutcome::kSuccess:
      return "success";
    case BackendOutcome::kConnectFailure:
      return "connect-failure";
    case BackendOutcome::kDiedBeforeFirstByte:
      return "died-before-first-byte";
    case BackendOutcome::kDiedMidStream:
      return "died-mid-stream";
    case BackendOutcome::kTimeout:
      return "timeout";
    case BackendOutcome::kGarbage:
      return "garbage";
    case BackendOutcome::kContextOverflow:
      return "context-overflow";
    case BackendOutcome::kClientError:
      return "client-error";
    case BackendOutcome::kClientCancelled:
      return "client-cancelled";
  }
  return "?";
}

std::string_view Name(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed:
      return "closed";
    case BreakerState::kOpen:
      return "open";
    case BreakerState::kHalfOpen:
      return "half-open";
  }
  return "?";
}

double Breaker::RetryInMs(double now_ms) const {
  // A clock that went back says nothing about how long it has been open: try.
  if (!open_ || now_ms < opened_ms_) return 0;
  return std::max(opened_ms_ + backoff_ms_ - now_ms, 0.0);
}

BreakerState Breaker::State(double now_ms) const {
  if (!open_) return BreakerState::kClosed;
  return RetryInMs(now_ms) > 0 ? BreakerState::kOpen : BreakerState::kHalfOpen;
}

bool Breaker::Allows(double now_ms) const { return !open_ || (RetryInMs(now_ms) <= 0 && !trial_); }

void Breaker::OnDispatch(double now_ms) {
  if (open_ && RetryInMs(now_ms) <= 0) trial_ = true;
}

void Breaker::Open(double now_ms) {
  backoff_ms_ = open_ ? std::min(backoff_ms_ * 2, options_.max_backoff_ms)
                      : std::min(options_.backoff_ms, options_.max_backoff_ms);
  open_ = true;
  trial_ = false;
  opened_ms_ = now_ms;
  ++times_opened_;
}

void Breaker::OnOutcome(BackendOutcome outcome, double now_ms) {
  if (outcome == BackendOutcome::kSuccess) {
    Reset();
    return;
  }
  if (!IsFailure(outcome)) {
    trial_ = false;
    return;
  }
  ++failures_;
  if (open_) {
    // Requests that were under way when it opened may still fail: only a trial prolongs.
    if (trial_) Open(now_ms);
  } else if (failures_ >= options_.failures_to_open) {
    Open(now_ms);
  }
}

void Breaker::Reset() {
  open_ = false;
  trial_ = false;
  failures_ = 0;
  backoff_ms_ = 0;
}

}  // namespace parallax::router
