// Whether backends are well, and which of them are in memory.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "router/swap_planner.h"
#include "server/dispatcher.h"

namespace parallax::server {

void Dispatcher::ProbeSoon(BackendState& backend, double delay_ms) {
  loop_.CancelTimer(std::exchange(backend.probe_timer, 0));
  if (stopping_) return;
  backend.probe_timer = loop_.After(delay_ms, [this, &backend] {
    backend.probe_timer = 0;
    if (backend.probing) return;
    if (!backend.backend->loaded() && options_.max_loaded > 0) return;
    backend.probing = true;
    backend.backend->Probe(
        [this, alive = alive_, epoch = backend.epoch, &backend](const ProbeResult& result) {
          if (!*alive || epoch != backend.epoch) return;
          backend.probing = false;
          Probed(backend, result);
        });
  });
}

void Dispatcher::Probed(BackendState& backend, const ProbeResult& told) {
  if (stopping_) return;
  const Health before = backend.health;
  const auto id = backend.id();
  ProbeResult result = told;
  // Requests wait for a backend that loads: not for ever.
  if (result.health != Health::kLoading) {
    backend.loading_since_ms = 0;
  } else if (backend.loading_since_ms == 0) {
    backend.loading_since_ms = loop_.NowMs();
  } else if (loop_.NowMs() - backend.loading_since_ms > options_.load_limit_ms) {
    result.health = Health::kDown;
    result.why = fmt::format("it has been loading for over {:.0f} s ({})",
                             options_.load_limit_ms / 1000, told.why);
  }
  backend.health = result.health;
  backend.why = result.why;
  if (result.health == Health::kReady) {
    // Another tokenizer or template is another model: what is cached is not of its tokens.
    const bool restarted =
        !backend.facts.boot.empty() && (backend.facts.boot != result.facts.boot ||
                                        backend.facts.identity != result.facts.identity);
    if (restarted) index_.Clear(id);
    const bool cache_changed = backend.facts.identity.empty() != result.facts.identity.empty() ||
                               backend.facts.slots != result.facts.slots;
    backend.facts = result.facts;
    if (cache_changed) AddToIndex(backend);
    if (before != Health::kReady) {
      backend.breaker.Reset();
      backend.loaded_ms = loop_.NowMs();
      if (backend.load_began_ms > 0) {
        backend.load_ms = std::max(loop_.NowMs() - backend.load_began_ms, 1.0);
        backend.load_began_ms = 0;
      }
      Say(Severity::kInfo, "backend_ready",
          fmt::format("backend '{}' is ready: {}, context {}, {} slot(s)", backend.name,
                      backend.backend->place(), backend.context(), backend.slots()),
          {{"backend", backend.name}});
    }
  } else if (result.health != before) {
    if (before == Health::kReady) index_.Clear(id);
    Say(result.health == Health::kDown ? Severity::kWarning : Severity::kInfo,
        result.health == Health::kDown ? "backend_down" : "backend_loading",
        fmt::format("backend '{}' is {}: {}", backend.name, Name(result.health), result.why),
        {{"backend", backend.name}});
  }
  ProbeSoon(backend,
            result.health == Health::kReady ? options_.probe_ready_ms : options_.probe_other_ms);
  if (result.health == Health::kDown) Requeue(backend);
  PumpAll();
}

// Asks the swap planner what to load and unload, and does it.
void Dispatcher::PlanLoads() {
  if (options_.max_loaded == 0 || stopping_) return;
  loop_.CancelTimer(std::exchange(plan_timer_, 0));
  const double now = loop_.NowMs();
  std::vector<router::SwapUnit> units;
  std::vector<BackendState*> states;
  std::vector<const Job*> waiting;
  for (const auto& backend : backends_) {
    if (!backend->backend->loadable()) continue;
    router::SwapUnit unit;
    unit.name = backend->name;
    unit.models = {backend->name};  // where a request goes is decided already
    // One that is down has a place that others may need: it counts as loaded, and idle.
    unit.state = backend->unloading                    ? router::UnitState::kUnloading
                 : !backend->backend->loaded()         ? router::UnitState::kUnloaded
                 : backend->health == Health::kLoading ? router::UnitState::kLoading
                                                       : router::UnitState::kLoaded;
    unit.marked = backend->marked;
    unit.running = backend->busy();
    unit.slots = backend->slots();
    unit.loaded_ms = backend->loaded_ms;
    unit.last_used_ms = backend->last_used_ms;
    units.push_back(std::move(unit));
    states.push_back(backend.get());
    waiting.insert(waiting.end(), backend->queued.begin(), backend->queued.end());
  }
  std::sort(waiting.begin(), waiting.end(), [](const Job* a, const Job* b) {
    return a->counted_ms != b->counted_ms ? a->counted_ms < b->counted_ms : a->id < b->id;
  });
  std::vector<router::SwapRequest> requests;
  for (const Job* job : waiting) {
    requests.push_back({.model = backends_[job->backend]->name, .arrived_ms = job->arrived_ms});
  }
  const router::SwapPlan plan =
      router::PlanSwaps({.max_loaded = options_.max_loaded, .max_wait_ms = options_.max_wait_ms},
                        units, requests, now);
  for (const std::size_t unit : plan.marks) states[unit]->marked = true;
  for (const std::size_t unit : plan.unmarks) states[unit]->marked = false;
  for (const std::size_t unit : plan.unloads) {
    BackendState* backend = states[unit];
    backend->unloading = true;
    ++backend->epoch;
    backend->probing = false;
    loop_.CancelTimer(std::exchange(backend->probe_timer, 0));
    Say(Severity::kInfo, "unload", fmt::format("backend '{}' is unloaded", backend->name),
        {{"backend", backend->name}});
    backend->backend->Unload([this, alive = alive_, backend] {
      if (!*alive) return;
      backend->unloading = false;
      backend->marked = false;
      backend->health = Health::kLoading;
      backend->why = "not in memory";
      index_.Clear(backend->id());
      if (const auto unloaded = std::exchange(backend->on_unloaded, nullptr)) unloaded();
      PumpAll();
    });
  }
  for (const router::SwapPlan::Load& load : plan.loads) {
    BackendState* backend = states[load.unit];
    backend->load_began_ms = backend->loading_since_ms = now;
    ++backend->epoch;
    backend->probing = false;
    backend->health = Health::kLoading;
    backend->why = "it loads its model";
    Say(Severity::kInfo, "load", fmt::format("backend '{}' is being loaded", backend->name),
        {{"backend", backend->name}});
    backend->backend->Load();
    ProbeSoon(*backend, 50);
  }
  if (std::isfinite(plan.next_check_ms)) {
    plan_timer_ = loop_.After(std::max(plan.next_check_ms - now, 1.0), [this] {
      plan_timer_ = 0;
      PumpAll();
    });
  }
}

}  // namespace parallax::server
