#include "router/swap_planner.h"

#include <algorithm>
#include <optional>

namespace parallax::router {
namespace {

bool Serves(const SwapUnit& unit, const std::string& model) {
  return unit.models.empty() ||
         std::find(unit.models.begin(), unit.models.end(), model) != unit.models.end();
}

bool InMemory(const SwapUnit& unit) { return unit.state != UnitState::kUnloaded; }

// Whether it could serve the request if it were loaded anew.
bool CouldAccept(const SwapUnit& unit, const SwapRequest& request) {
  return Serves(unit, request.model) &&
         (unit.max_context == 0 || request.need_context <= unit.max_context);
}

// A unit that has to be loaded (again) for a request.
struct Demand {
  size_t unit;
  int64_t context;  // largest need among its requests
  double since_ms;  // since when the one that has waited longest waits
};

class Planner {
 public:
  Planner(const SwapOptions& options, std::span<const SwapUnit> units,
          std::span<const SwapRequest> waiting, double now_ms)
      : options_(options),
        units_(units),
        waiting_(waiting),
        now_ms_(now_ms),
        marked_(units.size()),
        has_work_(units.size()) {
    for (size_t u = 0; u < units.size(); ++u) marked_[u] = units[u].marked;
  }

  SwapPlan Run() {
    FindDemands();
    GivePlaces();
    Unmark();
    StartWork();
    for (size_t u = 0; u < units_.size(); ++u) {
      if (marked_[u] && units_[u].state == UnitState::kLoaded && units_[u].running == 0) {
        plan_.unloads.push_back(u);
      }
    }
    return std::move(plan_);
  }

 private:
  // In memory or on the way there, to stay.
  bool Home(size_t u, const SwapRequest& request) const {
    const SwapUnit& unit = units_[u];
    return !marked_[u] && (unit.state == UnitState::kLoaded || unit.state == UnitState::kLoading) &&
           Accepts(unit, request);
  }

  // Which unit to load for a request: one that is not in memory, else the one with too small a
  // context, else one that is just leaving.
  std::optional<size_t> Target(const SwapRequest& request) const {
    std::optional<size_t> best;
    int best_rank = 3;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (!CouldAccept(units_[u], request)) continue;
      const bool leaving = marked_[u] || units_[u].state == UnitState::kUnloading;
      const int rank = !InMemory(units_[u]) ? 0 : leaving ? 2 : 1;
      if (rank < best_rank) {
        best = u;
        best_rank = rank;
      }
    }
    return best;
  }

  void FindDemands() {
    for (const SwapRequest& request : waiting_) {
      bool home = false;
      for (size_t u = 0; u < units_.size(); ++u) {
        if (!Home(u, request)) continue;
        has_work_[u] = true;
        home = true;
      }
      if (home) continue;
      const std::optional<size_t> unit = Target(request);
      if (!unit) continue;
      const SwapUnit& target = units_[*unit];
      // A unit that must be loaded anew for this request never had its turn with it.
      const bool had_turn = target.state != UnitState::kLoaded || marked_[*unit];
      const double since =
          had_turn ? std::max(request.arrived_ms, target.last_used_ms) : request.arrived_ms;
      const int64_t context =
          target.default_context == 0 ? 0 : std::max(request.need_context, target.default_context);
      const auto same = std::find_if(demands_.begin(), demands_.end(),
                                     [&](const Demand& d) { return d.unit == *unit; });
      if (same == demands_.end()) {
        demands_.push_back({*unit, context, since});
      } else {
        same->context = std::max(same->context, context);
        same->since_ms = std::min(same->since_ms, since);
      }
    }
    std::stable_sort(demands_.begin(), demands_.end(),
                     [](const Demand& a, const Demand& b) { return a.since_ms < b.since_ms; });
  }

  // Loads, or marks victims, for one demand after the other, longest wait first.
  void GivePlaces() {
    int64_t in_memory = 0, leaving = 0;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (!InMemory(units_[u])) continue;
      ++in_memory;
      if (marked_[u] || units_[u].state == UnitState::kUnloading) ++leaving;
    }
    const int64_t places =
        options_.max_loaded > 0 ? options_.max_loaded : static_cast<int64_t>(units_.size());
    int64_t free = places - in_memory;
    for (const Demand& demand : demands_) {
      const SwapUnit& unit = units_[demand.unit];
      if (marked_[demand.unit] || unit.state == UnitState::kUnloading)
        continue;                                       // it must go first
      if (unit.state == UnitState::kLoading) continue;  // too small, and too late to change
      if (unit.state == UnitState::kLoaded) {
        if (MayLeave(demand.unit, demand)) Mark(demand.unit);
        continue;  // its own place will do
      }
      if (free > 0) {
        --free;
        plan_.loads.push_back({demand.unit, demand.context});
        continue;
      }
      if (leaving > 0) {
        --leaving;
        ++claimed_;
        continue;
      }
      if (const std::optional<size_t> victim = Victim(demand)) {
        Mark(*victim);
        ++claimed_;
      }
    }
  }

  void Mark(size_t u) {
    marked_[u] = true;
    fresh_.push_back(u);
    plan_.marks.push_back(u);
  }

  // Whether a loaded unit may be taken for the demand now; if later, notes when.
  bool MayLeave(size_t u, const Demand& demand) {
    if (!has_work_[u]) return true;
    const double from = std::max(demand.since_ms + options_.max_wait_ms,
                                 units_[u].loaded_ms + options_.min_resident_ms);
    if (now_ms_ >= from) return true;
    plan_.next_check_ms = std::min(plan_.next_check_ms, from);
    return false;
  }

  // The unit to unload for a demand: one with nothing to do, used least recently; else, where the
  // demand has waited long enough, the one that was loaded first.
  std::optional<size_t> Victim(const Demand& demand) {
    std::optional<size_t> best;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].state != UnitState::kLoaded || marked_[u]) continue;
      if (!MayLeave(u, demand)) continue;
      if (!best || Before(u, *best)) best = u;
    }
    return best;
  }
  bool Before(size_t a, size_t b) const {
    if (has_work_[a] != has_work_[b]) return !has_work_[a];
    return has_work_[a] ? units_[a].loaded_ms < units_[b].loaded_ms
                        : units_[a].last_used_ms < units_[b].last_used_ms;
  }

  // Marks from before that no demand claims (its clients have gone) are taken back, where the unit
  // has requests of its own.
  void Unmark() {
    int64_t needed = claimed_;
    for (const SwapUnit& unit : units_) {
      if (unit.state == UnitState::kUnloading) --needed;
    }
    for (size_t u = 0; u < units_.size(); ++u) {
      if (!marked_[u] || units_[u].state != UnitState::kLoaded) continue;
      if (std::find(fresh_.begin(), fresh_.end(), u) != fresh_.end() || needed > 0) {
        --needed;
        continue;
      }
      bool wanted = false, too_small = false;
      for (const SwapRequest& request : waiting_) {
        wanted = wanted || Accepts(units_[u], request);
        too_small = too_small || (CouldAccept(units_[u], request) && !Accepts(units_[u], request));
      }
      if (!wanted || too_small) continue;
      marked_[u] = false;
      plan_.unmarks.push_back(u);
    }
  }

  void StartWork() {
    std::vector<int> free(units_.size());
    for (size_t u = 0; u < units_.size(); ++u) {
      const bool works = units_[u].state == UnitState::kLoaded && !marked_[u];
      free[u] = works ? std::max(units_[u].slots, 1) - units_[u].running : 0;
    }
    std::vector<const std::string*> held_up;  // models with an earlier request that found no slot
    for (size_t r = 0; r < waiting_.size(); ++r) {
      const SwapRequest& request = waiting_[r];
      if (std::any_of(held_up.begin(), held_up.end(),
                      [&](const std::string* model) { return *model == request.model; })) {
        continue;
      }
      std::optional<size_t> best;
      bool home = false;
      for (size_t u = 0; u < units_.size(); ++u) {
        if (!Home(u, request)) continue;
        home = true;
        if (free[u] > 0 && (!best || free[u] > free[*best])) best = u;
      }
      if (best) {
        --free[*best];
        plan_.starts.push_back({r, *best});
      } else if (home) {
        held_up.push_back(&request.model);
      }
    }
  }

  const SwapOptions& options_;
  std::span<const SwapUnit> units_;
  std::span<const SwapRequest> waiting_;
  double now_ms_;
  std::vector<bool> marked_;    // before and by this plan
  std::vector<bool> has_work_;  // a waiting request could start there
  std::vector<size_t> fresh_;   // marked by this plan
  std::vector<Demand> demands_;
  int64_t claimed_ = 0;  // leaving units whose place some demand will take
  SwapPlan plan_;
};

}  // namespace

bool Accepts(const SwapUnit& unit, const SwapRequest& request) {
  const int64_t context = unit.context != 0 ? unit.context : unit.max_context;
  return Serves(unit, request.model) && (context == 0 || request.need_context <= context);
}

SwapPlan PlanSwaps(const SwapOptions& options, std::span<const SwapUnit> units,
                   std::span<const SwapRequest> waiting, double now_ms) {
  return Planner(options, units, waiting, now_ms).Run();
}

}  // namespace parallax::router
