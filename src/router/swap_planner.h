// Which model to load next when not all fit in memory: grouped, fair, never cutting a request off.
//
// Role:       the server calls PlanSwaps after every event (arrival, end, load, unload) and at
//             next_check_ms, and carries the plan out.
// Ownership:  borrows its input; the plan owns indices only.
// Threads:    pure.
// Cost:       O(units + waiting) times the number of steps planned.
// Invariants: a unit is unloaded only when it runs nothing; a marked unit gets no new work; at most
//             max_loaded units are in memory (loading, loaded or unloading); requests of one model
//             that a loaded unit accepts start in order of arrival. Nothing waits for a unit other
//             than its own: work on one unit never blocks another's.
//
// Arrivals for loaded units overtake requests that need a load as long as those may wait. A request
// has waited since it arrived, or since its unit last worked if that was later (the unit has had
// its turn). Once the oldest has waited max_wait_ms, a victim is marked although it has more to do;
// one with nothing waiting is marked at once. A unit with requests keeps its place for
// min_resident_ms after loading, so that under overload loads cannot follow each other without work
// between. Places that become free go to the request that has waited longest. A unit loaded with
// too small a context is its own victim. Example:
//   SwapPlan plan = PlanSwaps(options, units, waiting, now_ms);
//   for (auto [request, unit] : plan.starts) Send(waiting[request], units[unit]);
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace parallax::router {

enum class UnitState : uint8_t { kUnloaded, kLoading, kLoaded, kUnloading };

// A thing that is loaded as a whole: a spawned backend with its model.
struct SwapUnit {
  std::string name = {};
  std::vector<std::string> models = {};  // names it answers to; empty: any
  UnitState state = UnitState::kUnloaded;
  bool marked = false;          // chosen to be unloaded: takes no new work
  int64_t context = 0;          // tokens, as loaded; 0: unknown, any need fits
  int64_t max_context = 0;      // tokens it could be loaded with; 0: unknown
  int64_t default_context = 0;  // what it is loaded with where nobody asks for more; 0: its own
                                // choice, which is taken to do for any need
  int running = 0;
  int slots = 1;
  double loaded_ms = 0;     // when it became kLoaded
  double last_used_ms = 0;  // when it last started or ended a request
};

struct SwapRequest {
  std::string model = {};
  int64_t need_context = 0;  // p + g, or the num_ctx that the client asked for; any unit with at
                             // least so much will do. 0: any.
  double arrived_ms = 0;
};

struct SwapOptions {
  int max_loaded = 0;  // units in memory at once; 0: all
  double max_wait_ms = 15'000;
  double min_resident_ms = 5'000;
};

struct SwapPlan {
  struct Start {
    size_t request, unit;
  };
  struct Load {
    size_t unit;
    int64_t context;  // tokens; 0: the unit's own choice
  };
  std::vector<Start> starts = {};
  std::vector<size_t> marks = {};    // from now on these take no new work
  std::vector<size_t> unmarks = {};  // nobody needs their places any more: these work on
  std::vector<size_t> unloads = {};  // these are marked and idle: unload now
  std::vector<Load> loads = {};      // memory is free for these: load now
  // When to ask again although nothing happens (a request's age bound); infinity: no need.
  double next_check_ms = std::numeric_limits<double>::infinity();
};

// `waiting` in order of arrival.
SwapPlan PlanSwaps(const SwapOptions& options, std::span<const SwapUnit> units,
                   std::span<const SwapRequest> waiting, double now_ms);

// Whether a unit, loaded as it is, can serve the request.
bool Accepts(const SwapUnit& unit, const SwapRequest& request);

}  // namespace parallax::router
