#include "router/explain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include <fmt/format.h>

namespace parallax::router {
namespace {

using Buffer = fmt::memory_buffer;

void Append(Buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

// 1,340: digits in threes.
void AppendCount(Buffer& out, int64_t n) {
  const fmt::format_int digits(n);
  const std::string_view text(digits.data(), digits.size());
  const size_t sign = n < 0 ? 1 : 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > sign && (text.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(text[i]);
  }
}

void AppendMs(Buffer& out, double ms) {
  AppendCount(out, std::llround(std::clamp(ms, -1e15, 1e15)));
  Append(out, " ms");
}

std::string_view RuleOf(const Decision& d) {
  switch (d.reason_code) {
    case ReasonCode::kRule:
      return " by ";
    case ReasonCode::kRuleFallback:
      return " instead of the backend named by ";
    default:
      return "";
  }
}

double Shown(const Decision& d, const Candidate& c) {
  return d.objective == Objective::kTotal ? c.total_ms : c.ttft_ms;
}

void AppendWork(Buffer& out, const Decision& d, const Candidate& c) {
  AppendCount(out, c.workload.Effective());
  Append(out, " tokens to prefill");
  if (c.workload.cached_tokens > 0) {
    Append(out, " (");
    AppendCount(out, c.workload.cached_tokens);
    Append(out, " of ");
    AppendCount(out, c.workload.prompt_tokens);
    Append(out, " cached)");
  }
  Append(out, ", ");
  AppendCount(out, c.workload.max_new_tokens);
  Append(out, " to generate");
  if (d.choices > 1) {
    Append(out, " for each of ");
    AppendCount(out, d.choices);
    Append(out, " choices");
  }
}

void AppendRouted(Buffer& out, const Decision& d, const Candidate& chosen) {
  Append(out, chosen.name);
  if (const std::string_view rule = RuleOf(d); !rule.empty()) {
    Append(out, rule);
    Append(out, d.policy);
  }
  Append(out, ": ");
  AppendMs(out, Shown(d, chosen));
  Append(out, d.objective == Objective::kTotal ? " predicted" : " to the first token predicted");
  if (chosen.queue_ms >= 0.5) {
    Append(out, ", ");
    AppendMs(out, chosen.queue_ms);
    Append(out, " of it waiting");
  }
  std::vector<const Candidate*> others;
  for (const Candidate& c : d.candidates) {
    if (&c != &chosen && c.exclusion == Exclusion::kNone) others.push_back(&c);
  }
  std::stable_sort(others.begin(), others.end(), [&](const Candidate* a, const Candidate* b) {
    return Shown(d, *a) < Shown(d, *b);
  });
  for (const Candidate* c : others) {
    Append(out, ", ");
    Append(out, c->name);
    Append(out, " ");
    AppendMs(out, Shown(d, *c));
  }
  Append(out, ": ");
  AppendWork(out, d, chosen);
  switch (d.reason_code) {
    case ReasonCode::kOnlyCandidate:
      Append(out, "; no other backend can take it");
      break;
    case ReasonCode::kPinnedBackend:
      Append(out, "; pinned");
      break;
    case ReasonCode::kTieLeastLoaded:
      Append(out, "; a tie, it has the fewest requests");
      break;
    case ReasonCode::kTieLeastRecent:
      Append(out, "; a tie, its turn");
      break;
    case ReasonCode::kExploring:
      Append(out, "; chosen to be measured");
      break;
    default:
      break;
  }
  if (chosen.context == ContextVerdict::kTruncates) {
    Append(out, "; its context cuts the answer short");
  }
  if (chosen.have_tokens > 0 && chosen.have_tokens < d.wanted_context) {
    Append(out, "; no context of ");
    AppendCount(out, d.wanted_context);
    Append(out, " tokens is there");
  }
}

// "cpu down, npu draining": what keeps each backend of the model from the request.
void AppendExclusions(Buffer& out, const Decision& d) {
  bool first = true;
  for (const Candidate& c : d.candidates) {
    if (c.exclusion == Exclusion::kModel) continue;
    if (!first) Append(out, ", ");
    first = false;
    Append(out, c.name);
    Append(out, " ");
    switch (c.exclusion) {
      case Exclusion::kContext:
        Append(out, "holds ");
        AppendCount(out, c.have_tokens);
        Append(out, " tokens");
        break;
      case Exclusion::kQueueFull:
        Append(out, "has ");
        AppendCount(out, c.queued);
        Append(out, " of ");
        AppendCount(out, c.queue_limit);
        Append(out, " waiting");
        break;
      case Exclusion::kDeadline:
        AppendMs(out, c.total_ms);
        break;
      case Exclusion::kPinned:
        Append(out, "is not the pinned one");
        break;
      case Exclusion::kPolicy:
        Append(out, "is not the policy's");
        break;
      default:
        Append(out, Name(c.exclusion));
        break;
    }
  }
}

}  // namespace

std::string Explain(const Decision& d) {
  Buffer out;
  switch (d.status) {
    case DecisionStatus::kRouted:
      if (const Candidate* chosen = d.chosen_candidate()) AppendRouted(out, d, *chosen);
      break;
    case DecisionStatus::kUnknownModel:
      fmt::format_to(std::back_inserter(out), "no backend answers to the model '{}'", d.model);
      break;
    case DecisionStatus::kUnavailable:
      Append(out, "no backend can take it now: ");
      AppendExclusions(out, d);
      break;
    case DecisionStatus::kContextOverflow:
      Append(out, "the prompt has ");
      AppendCount(out, d.n_prompt_tokens);
      Append(out, " tokens, the largest context holds ");
      AppendCount(out, d.n_ctx);
      break;
    case DecisionStatus::kQueueFull:
      Append(out, "no queue has room, try again in ");
      AppendCount(out, d.retry_after_s);
      Append(out, " s: ");
      AppendExclusions(out, d);
      break;
    case DecisionStatus::kDeadline:
      Append(out, "no backend is predicted to answer within ");
      AppendMs(out, d.deadline_ms);
      Append(out, ": ");
      AppendExclusions(out, d);
      break;
  }
  return fmt::to_string(out);
}

}  // namespace parallax::router
