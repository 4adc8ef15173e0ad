// /status.json: what the status page shows, for other programs too.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/service.h"

namespace parallax::server {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kDecisionsShown = 40;

double Round(double value) { return std::round(value * 10) / 10; }

ordered_json JobJson(const Job& job, double now_ms) {
  const router::Candidate* chosen = job.decision.chosen_candidate();
  return {
      {"id", job.id},
      {"backend", chosen != nullptr ? chosen->name : ""},
      {"state", job.state == Job::State::kRunning ? (job.first_delta_ms > 0 ? "decode" : "prefill")
                                                  : "queued"},
      {"age_ms", Round(now_ms - job.arrived_ms)},
      {"predicted_ms", chosen != nullptr ? Round(chosen->total_ms) : 0.0},
      {"tokens", job.deltas}};
}

ordered_json BackendJson(const Dispatcher& dispatcher, const BackendState& backend,
                         const router::BackendSnapshot& view, double now_ms) {
  const router::CacheGauges cache = dispatcher.index().Gauges(backend.id());
  const router::LatencyModel& model = backend.fit->model();
  ordered_json jobs = ordered_json::array();
  for (const Job* job : backend.running) jobs.push_back(JobJson(*job, now_ms));
  for (const Job* job : backend.queued) jobs.push_back(JobJson(*job, now_ms));
  ordered_json entry{{"name", backend.name},
                     {"kind", router::Name(view.kind)},
                     {"place", backend.backend->place()},
                     {"state", router::Name(view.availability)},
                     {"reason", view.reason.empty() ? backend.why : view.reason},
                     {"models", view.models},
                     {"context", view.context_tokens},
                     {"slots", view.slots},
                     {"jobs", jobs},
                     {"busy_for_cancelled", backend.ghosts.size()},
                     {"sent", backend.sent},
                     {"completed", backend.completed},
                     {"failed", backend.failed},
                     {"cancelled", backend.cancelled}};
  entry["tokens"] = {{"prompt", backend.tokens_in},
                     {"reused", backend.tokens_reused},
                     {"generated", backend.tokens_out},
                     {"counted", backend.facts.identity.empty() ? "estimated" : "exact"}};
  entry["cache"] = {{"rules", cache.rules},         {"sequences", cache.entries},
                    {"bytes", cache.bytes},         {"capacity_symbols", cache.capacity_symbols},
                    {"hit_ratio", cache.hit_ratio}, {"checked", backend.reuse_checked},
                    {"exact", backend.reuse_exact}};
  entry["latency"] = {{"source", router::Name(model.source)},
                      {"observations", model.observations},
                      {"relative_error", backend.fit->relative_error()},
                      {"prefill_ms_per_token", model.beta[1]},
                      {"decode_ms_per_token", model.beta[3]}};
  return entry;
}

ordered_json DecisionJson(const router::Decision& decision) {
  const router::Candidate* chosen = decision.chosen_candidate();
  const router::Outcome& outcome = decision.outcome;
  const auto number = [](const auto& value) {
    return value ? ordered_json(Round(static_cast<double>(*value))) : ordered_json(nullptr);
  };
  ordered_json candidates = ordered_json::array();
  for (const router::Candidate& candidate : decision.candidates) {
    candidates.push_back({{"name", candidate.name},
                          {"total_ms", Round(candidate.total_ms)},
                          {"excluded", candidate.exclusion == router::Exclusion::kNone
                                           ? ""
                                           : std::string(router::Name(candidate.exclusion))}});
  }
  return {{"id", decision.id},
          {"time_ms", decision.time_ms},
          {"status", router::Name(decision.status)},
          {"backend", chosen != nullptr ? chosen->name : ""},
          {"reason", decision.reason},
          {"prompt_tokens", chosen != nullptr ? chosen->workload.prompt_tokens : 0},
          {"max_new_tokens", decision.max_new_tokens},
          {"cached_tokens", chosen != nullptr ? chosen->predicted_reuse : 0},
          {"predicted_ms", chosen != nullptr ? Round(chosen->total_ms) : 0.0},
          {"candidates", candidates},
          {"finished", outcome.finished},
          {"measured_ms", number(outcome.total_ms)},
          {"ttft_ms", number(outcome.ttft_ms)},
          {"measured_cached", number(outcome.cached_tokens)},
          {"generated", number(outcome.generated_tokens)},
          {"finish", outcome.finish},
          {"error", outcome.error}};
}

}  // namespace

std::string StatusJson(const Dispatcher& dispatcher, double now_ms) {
  const router::Snapshot snapshot = dispatcher.MakeSnapshot();
  const Metrics& metrics = dispatcher.metrics();
  ordered_json status{{"time_ms", snapshot.now_ms},
                      {"policy", router::Name(dispatcher.options().policy)},
                      {"objective", router::Name(dispatcher.options().policy.objective)}};
  std::uint64_t errors = 0;
  std::uint64_t answers = 0;
  for (const auto& [code, n] : metrics.answers) {
    answers += n;
    if (code >= 400) errors += n;
  }
  status["totals"] = {{"answers", answers},
                      {"errors", errors},
                      {"cancelled", metrics.cancelled + metrics.queue_cancelled},
                      {"retries", metrics.retries},
                      {"under_way", dispatcher.jobs()},
                      {"records_lost", dispatcher.records().lost()},
                      {"index_bytes", dispatcher.index().bytes()}};
  status["backends"] = ordered_json::array();
  for (std::size_t i = 0; i < snapshot.backends.size(); ++i) {
    status["backends"].push_back(
        BackendJson(dispatcher, *dispatcher.backends()[i], snapshot.backends[i], now_ms));
  }
  status["decisions"] = ordered_json::array();
  const auto& order = dispatcher.records().order();
  for (std::size_t i = 0; i < std::min(order.size(), kDecisionsShown); ++i) {
    if (const auto* decision = dispatcher.records().Find(order[order.size() - 1 - i])) {
      status["decisions"].push_back(DecisionJson(*decision));
    }
  }
  return DumpJson(status);
}

}  // namespace parallax::server
