// Cases about models that do not all fit in memory, on a fake clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/router/swap_simulation.h"

namespace parallax::router {
namespace {

using swaps::Arrival;
using swaps::Event;
using swaps::Served;
using swaps::Simulation;
using swaps::Unit;

// One slot, load 5 s, run 1 s, A B A A C A B C at once: FIFO loads 7 times, grouped 3 times.
TEST(CaseFifoSwappingThrash, GroupsByTheLoadedModel) {
  Simulation simulation({.max_loaded = 1}, {Unit("A"), Unit("B"), Unit("C")}, 5000);
  std::vector<Arrival> arrivals;
  for (const char* model : {"A", "B", "A", "A", "C", "A", "B", "C"}) arrivals.push_back({0, model});
  simulation.Run(arrivals);
  EXPECT_EQ(simulation.violation(), "");
  EXPECT_EQ(simulation.Count("load"), 3);
  std::string order;
  for (const Event& e : simulation.events()) {
    if (e.what == "start") order += e.unit;
  }
  EXPECT_EQ(order, "AAAABBCC");
}

// One C at 0.1 s and an A every 0.9 s for 60 s (more than one slot can serve), max_wait 15 s.
TEST(CaseFifoSwappingThrash, NobodyStarves) {
  std::vector<Arrival> arrivals = {{100, "C"}};
  for (double t = 0; t <= 60'000; t += 900) arrivals.push_back({t, "A"});
  Simulation simulation({.max_loaded = 1, .max_wait_ms = 15'000}, {Unit("A"), Unit("C")}, 5000);
  simulation.Run(arrivals);
  EXPECT_EQ(simulation.violation(), "");
  EXPECT_LE(simulation.FirstTime("load", "C"), 15'100 + 1000);
  EXPECT_LE(simulation.FirstTime("start", "C"), 22'000);
  EXPECT_LT(simulation.LongestWait(), Simulation::kNever);
  // The swap is worth one: A does not come back before C has been served.
  EXPECT_EQ(simulation.Count("load"), 3);
}

// A streams 20 tokens of 100 ms; B arrives at the fifth.
TEST(CaseModelSwapAbortsRequestsInFlight, DrainsBeforeItUnloads) {
  Simulation simulation({.max_loaded = 1}, {Unit("A"), Unit("B")}, 3000);
  simulation.Run({{0, "A", 2000}, {3000 + 500, "B", 1000}});
  EXPECT_EQ(simulation.violation(), "");
  const double finish = simulation.FirstTime("finish", "A"),
               unload = simulation.FirstTime("unload", "A"),
               load = simulation.FirstTime("load", "B"), start = simulation.FirstTime("start", "B");
  EXPECT_EQ(finish, 5000);  // loaded at 3000, all of its 2000 ms
  EXPECT_LE(finish, unload);
  EXPECT_LE(unload, load);
  EXPECT_LT(load, start);
}

// A (4096 tokens, 2 slots) under constant load; one request needs more and A loaded anew; B beside
// it.
TEST(CaseSchedulerDeadlockWhenTheVictimKeepsGettingWork, ReloadsAndLetsOthersWork) {
  swaps::Arrival large{2000, "A", 1000, 8000};
  std::vector<Arrival> arrivals = {large};
  for (double t = 0; t < 60'000; t += 600) arrivals.push_back({t, "A", 1000, 100});
  for (double t = 0; t < 60'000; t += 300) arrivals.push_back({t, "B", 200, 100});
  SwapUnit a = Unit("A"), b = Unit("B");
  a.state = b.state = UnitState::kLoaded;
  a.context = b.context = 4096;
  a.max_context = 16384;
  a.default_context = 4096;
  a.slots = 2;
  Simulation simulation({.max_loaded = 2, .max_wait_ms = 15'000}, {a, b}, 5000);
  simulation.Run(arrivals);
  EXPECT_EQ(simulation.violation(), "");
  std::vector<double> waits_b;
  for (const Served& s : simulation.served()) {
    ASSERT_GE(s.start_ms, 0);
    EXPECT_LT(s.start_ms - s.arrival.at_ms, 30'000);
    if (s.arrival.model == "B") waits_b.push_back(s.end_ms - s.arrival.at_ms);
  }
  std::sort(waits_b.begin(), waits_b.end());
  EXPECT_LT(waits_b[waits_b.size() * 95 / 100], 1000);
  // Once marked, it takes no work, and is gone as soon as what ran has ended: 1 s at most.
  const double mark = simulation.FirstTime("mark", "A");
  ASSERT_LT(mark, Simulation::kNever);
  EXPECT_LE(simulation.FirstTime("unload", "A"), mark + 1000);
  EXPECT_EQ(simulation.Count("load"), 1);  // and with 8000 tokens it serves the small ones too
}

// Client 1 asks for 8192 tokens of context, client 2 does not care; ten times in turn.
TEST(CaseSameModelReloadsBecauseClientsDifferInOptions, LoadsOnce) {
  SwapUnit unit = Unit("A");
  unit.max_context = 16384;
  unit.default_context = 4096;
  Simulation simulation({.max_loaded = 1}, {unit}, 5000);
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 10; ++i) {
    arrivals.push_back({i * 8000.0, "A", 1000, 8192});
    arrivals.push_back({i * 8000.0 + 4000, "A", 1000, 0});
  }
  simulation.Run(arrivals);
  EXPECT_EQ(simulation.violation(), "");
  EXPECT_EQ(simulation.Count("load"), 1);
  EXPECT_LT(simulation.LongestWait(), 6000);
}

// Random models, arrivals, contexts and limits: the rules hold, everybody is served, and nobody
// waits without bound.
TEST(SwapPlanner, HoldsItsRulesAndServesEverybody) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t models = 2 + random() % 4;
    const SwapOptions options{.max_loaded = static_cast<int>(random() % (models + 1)),
                              .max_wait_ms = 15'000,
                              .min_resident_ms = 5000};
    std::vector<SwapUnit> units;
    for (size_t i = 0; i < models; ++i) {
      SwapUnit unit = Unit(std::string(1, static_cast<char>('A' + i)));
      unit.slots = 1 + static_cast<int>(random() % 3);
      unit.max_context = 16384;
      unit.default_context = 4096;
      units.push_back(unit);
    }
    std::vector<Arrival> arrivals;
    double at = 0;
    for (int i = 0; i < 100; ++i) {
      at += static_cast<double>(random() % 4000);
      Arrival a{at, std::string(1, static_cast<char>('A' + random() % models)),
                static_cast<double>(200 + random() % 1500)};
      if (random() % 20 == 0) a.need_context = 8000;
      arrivals.push_back(a);
    }
    Simulation simulation(options, units, 3000);
    simulation.Run(arrivals);
    ASSERT_EQ(simulation.violation(), "") << "trial " << trial;
    ASSERT_EQ(simulation.served().size(), arrivals.size());
    // A model's turn comes after at most every other model's: each holds the place for max_wait or
    // min_resident, drains 1.7 s and loads 3 s; its own backlog may need a second turn.
    const double turn = 15'000 + 1'700 + 3'000;
    EXPECT_LT(simulation.LongestWait(), 2 * turn * static_cast<double>(models))
        << "trial " << trial;
  }
}

TEST(SwapPlanner, EverythingLoadsWhereThereIsRoom) {
  Simulation simulation({.max_loaded = 0}, {Unit("A"), Unit("B"), Unit("C")}, 1000);
  simulation.Run({{0, "A"}, {0, "B"}, {0, "C"}});
  EXPECT_EQ(simulation.LongestWait(), 1000);
  EXPECT_EQ(simulation.Count("mark"), 0);
}

TEST(SwapPlanner, TheIdlestModelLeaves) {
  Simulation simulation({.max_loaded = 2}, {Unit("A"), Unit("B"), Unit("C")}, 1000);
  simulation.Run({{0, "A"}, {0, "B"}, {5000, "A"}, {10'000, "C"}});
  EXPECT_EQ(simulation.FirstTime("unload", "B"), 10'000);
  EXPECT_EQ(simulation.FirstTime("unload", "A"), Simulation::kNever);
}

TEST(SwapPlanner, RequestsThatNothingCanServeBlockNobody) {
  SwapUnit small = Unit("A");
  small.max_context = 4096;
  Simulation simulation({.max_loaded = 1}, {small}, 1000);
  simulation.Run({{0, "A", 1000, 100'000}, {0, "Z"}, {0, "A"}, {0, "A"}});
  EXPECT_EQ(simulation.violation(), "");
  EXPECT_EQ(simulation.served()[2].start_ms, 1000);
  EXPECT_EQ(simulation.served()[3].start_ms, 2000);
  EXPECT_EQ(simulation.served()[0].start_ms, -1);
}

// The client that needed the place has gone before the victim was idle.
TEST(SwapPlanner, TakesAMarkBackThatNobodyNeeds) {
  SwapUnit a = Unit("A"), b = Unit("B");
  a.state = UnitState::kLoaded;
  a.marked = true;
  a.running = 1;
  const std::vector<SwapUnit> units = {a, b};
  const std::vector<SwapRequest> waiting = {{"A", 0, 100}};
  SwapPlan plan = PlanSwaps({.max_loaded = 1}, units, waiting, 1000);
  EXPECT_EQ(plan.unmarks, std::vector<size_t>{0});
  EXPECT_TRUE(plan.unloads.empty());
  // Somebody still needs it.
  const std::vector<SwapRequest> both = {{"A", 0, 100}, {"B", 0, 50}};
  plan = PlanSwaps({.max_loaded = 1}, units, both, 1000);
  EXPECT_TRUE(plan.unmarks.empty());
  EXPECT_TRUE(plan.starts.empty());
}

}  // namespace
}  // namespace parallax::router
