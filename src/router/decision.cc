#include "router/decision.h"

namespace parallax::router {

std::string_view Name(Availability availability) {
  switch (availability) {
    case Availability::kReady:
      return "ready";
    case Availability::kLoading:
      return "loading";
    case Availability::kUnloaded:
      return "unloaded";
    case Availability::kDown:
      return "down";
    case Availability::kBreakerOpen:
      return "breaker-open";
    case Availability::kDraining:
      return "draining";
  }
  return "?";
}

std::string_view Name(RequestKind kind) {
  return kind == RequestKind::kChat ? "chat" : "completion";
}

std::string_view Name(DecisionStatus status) {
  switch (status) {
    case DecisionStatus::kRouted:
      return "routed";
    case DecisionStatus::kUnknownModel:
      return "unknown-model";
    case DecisionStatus::kUnavailable:
      return "unavailable";
    case DecisionStatus::kContextOverflow:
      return "context-overflow";
    case DecisionStatus::kQueueFull:
      return "queue-full";
    case DecisionStatus::kDeadline:
      return "deadline";
  }
  return "?";
}

std::string_view Name(Exclusion exclusion) {
  switch (exclusion) {
    case Exclusion::kNone:
      return "none";
    case Exclusion::kModel:
      return "model";
    case Exclusion::kPinned:
      return "pinned";
    case Exclusion::kPolicy:
      return "policy";
    case Exclusion::kDown:
      return "down";
    case Exclusion::kBreakerOpen:
      return "breaker-open";
    case Exclusion::kDraining:
      return "draining";
    case Exclusion::kContext:
      return "context";
    case Exclusion::kTruncates:
      return "truncates";
    case Exclusion::kSmallContext:
      return "small-context";
    case Exclusion::kQueueFull:
      return "queue-full";
    case Exclusion::kDeadline:
      return "deadline";
  }
  return "?";
}

std::string_view Name(ReasonCode code) {
  switch (code) {
    case ReasonCode::kNotRouted:
      return "not-routed";
    case ReasonCode::kFastest:
      return "fastest";
    case ReasonCode::kRule:
      return "rule";
    case ReasonCode::kRuleFallback:
      return "rule-fallback";
    case ReasonCode::kOnlyCandidate:
      return "only-candidate";
    case ReasonCode::kPinnedBackend:
      return "pinned";
    case ReasonCode::kTieLeastLoaded:
      return "tie-least-loaded";
    case ReasonCode::kTieLeastRecent:
      return "tie-least-recent";
    case ReasonCode::kExploring:
      return "exploring";
  }
  return "?";
}

}  // namespace parallax::router
