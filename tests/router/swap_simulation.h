// A machine that carries swap plans out on a clock of its own.
//
// Role:       the swap planner's tests and cases.
// Ownership:  owns units, requests and the record of events.
// Threads:    one caller.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "router/swap_planner.h"

namespace parallax::router::swaps {

struct Arrival {
  double at_ms;
  std::string model;
  double run_ms = 1000;
  int64_t need_context = 0;
};

struct Served {
  Arrival arrival;
  double start_ms = -1;  // -1: never
  double end_ms = -1;
  std::string unit = {};
};

struct Event {
  double at_ms;
  std::string what;  // "load", "loaded", "mark", "unmark", "unload", "start", "finish"
  std::string unit;
};

class Simulation {
 public:
  Simulation(const SwapOptions& options, std::vector<SwapUnit> units, double load_ms)
      : options_(options),
        units_(std::move(units)),
        load_ms_(load_ms),
        ready_(units_.size(), kNever) {}

  // Runs until all arrivals are served or nothing can happen any more.
  void Run(std::vector<Arrival> arrivals) {
    std::stable_sort(arrivals.begin(), arrivals.end(),
                     [](const Arrival& a, const Arrival& b) { return a.at_ms < b.at_ms; });
    size_t next = 0;
    double now = 0;
    while (true) {
      while (next < arrivals.size() && arrivals[next].at_ms <= now) {
        served_.push_back({arrivals[next]});
        waiting_.push_back(served_.size() - 1);
        ++next;
      }
      Finish(now);
      const double check = Step(now);
      double then = next < arrivals.size() ? arrivals[next].at_ms : kNever;
      for (const Running& r : running_) then = std::min(then, r.end_ms);
      for (double r : ready_) then = std::min(then, r);
      if (check > now) then = std::min(then, check);
      if (then == kNever) return;
      now = then;
    }
  }

  const std::vector<Served>& served() const { return served_; }
  const std::vector<Event>& events() const { return events_; }
  int Count(const std::string& what) const {
    return static_cast<int>(std::count_if(events_.begin(), events_.end(),
                                          [&](const Event& e) { return e.what == what; }));
  }
  double FirstTime(const std::string& what, const std::string& unit) const {
    for (const Event& e : events_) {
      if (e.what == what && e.unit == unit) return e.at_ms;
    }
    return kNever;
  }
  double LongestWait() const {
    double longest = 0;
    for (const Served& s : served_) {
      if (s.start_ms < 0) return kNever;
      longest = std::max(longest, s.start_ms - s.arrival.at_ms);
    }
    return longest;
  }
  // What the planner must never do; empty if it never did.
  const std::string& violation() const { return violation_; }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

 private:
  struct Running {
    size_t request, unit;
    double end_ms;
  };

  void Note(double now, const std::string& what, size_t unit) {
    events_.push_back({now, what, units_[unit].name});
  }
  void Check(bool good, const std::string& rule) {
    if (!good && violation_.empty()) violation_ = rule;
  }

  void Finish(double now) {
    std::erase_if(running_, [&](const Running& r) {
      if (r.end_ms > now) return false;
      served_[r.request].end_ms = now;
      --units_[r.unit].running;
      units_[r.unit].last_used_ms = now;
      Note(now, "finish", r.unit);
      return true;
    });
    for (size_t u = 0; u < units_.size(); ++u) {
      if (ready_[u] > now) continue;
      units_[u].state = UnitState::kLoaded;
      units_[u].loaded_ms = now;
      ready_[u] = kNever;
      Note(now, "loaded", u);
    }
  }

  // Plans and carries out until nothing more is to be done now; returns when to ask again.
  double Step(double now) {
    for (int round = 0; round < 100; ++round) {
      std::vector<SwapRequest> requests;
      for (size_t r : waiting_) {
        const Arrival& a = served_[r].arrival;
        requests.push_back({a.model, a.need_context, a.at_ms});
      }
      const SwapPlan plan = PlanSwaps(options_, units_, requests, now);
      for (size_t u : plan.marks) {
        Check(units_[u].state == UnitState::kLoaded && !units_[u].marked,
              "marks what is not loaded");
        units_[u].marked = true;
        Note(now, "mark", u);
      }
      for (size_t u : plan.unmarks) {
        Check(units_[u].marked, "unmarks what is not marked");
        units_[u].marked = false;
        Note(now, "unmark", u);
      }
      std::vector<size_t> started;
      for (const SwapPlan::Start& s : plan.starts) {
        SwapUnit& unit = units_[s.unit];
        Check(unit.state == UnitState::kLoaded, "starts on what is not loaded");
        Check(!unit.marked, "starts on a marked unit");
        Check(unit.running < unit.slots, "starts without a free slot");
        Check(Accepts(unit, requests[s.request]), "starts where it is not accepted");
        ++unit.running;
        unit.last_used_ms = now;
        Served& served = served_[waiting_[s.request]];
        served.start_ms = now;
        served.unit = unit.name;
        running_.push_back({waiting_[s.request], s.unit, now + served.arrival.run_ms});
        Note(now, "start", s.unit);
        started.push_back(waiting_[s.request]);
      }
      std::erase_if(waiting_, [&](size_t r) {
        return std::find(started.begin(), started.end(), r) != started.end();
      });
      for (size_t u : plan.unloads) {
        Check(units_[u].running == 0, "unloads what still runs");
        Check(units_[u].marked, "unloads what was not marked");
        units_[u].state = UnitState::kUnloaded;
        units_[u].marked = false;
        Note(now, "unload", u);
      }
      for (const SwapPlan::Load& l : plan.loads) {
        Check(units_[l.unit].state == UnitState::kUnloaded, "loads what is in memory");
        units_[l.unit].state = UnitState::kLoading;
        units_[l.unit].context = l.context;
        ready_[l.unit] = now + load_ms_;
        Note(now, "load", l.unit);
      }
      const auto in_memory = std::count_if(units_.begin(), units_.end(), [](const SwapUnit& u) {
        return u.state != UnitState::kUnloaded;
      });
      Check(options_.max_loaded == 0 || in_memory <= options_.max_loaded, "too many in memory");
      if (plan.marks.empty() && plan.unmarks.empty() && plan.starts.empty() &&
          plan.unloads.empty() && plan.loads.empty()) {
        return plan.next_check_ms;
      }
    }
    Check(false, "does not come to rest");
    return kNever;
  }

  SwapOptions options_;
  std::vector<SwapUnit> units_;
  double load_ms_;
  std::vector<double> ready_;  // when loading ends
  std::vector<Served> served_;
  std::vector<size_t> waiting_;  // indices into served_, in order of arrival
  std::vector<Running> running_;
  std::vector<Event> events_;
  std::string violation_;
};

inline SwapUnit Unit(const std::string& model) {
  SwapUnit unit;
  unit.name = model;
  unit.models = {model};
  return unit;
}

}  // namespace parallax::router::swaps
