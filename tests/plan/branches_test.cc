#include "plan/branches.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tests/ops/runner/text_model.h"

namespace parallax::plan {
namespace {

using Edges = std::vector<Dag::Edge>;

std::vector<int32_t> ListOf(std::span<const int32_t> s) { return {s.begin(), s.end()}; }

TEST(Dag, DistinctEdgesInBothDirections) {
  const Dag dag(4, Edges{{0, 3}, {2, 3}, {0, 3}, {1, 1}, {0, 1}});
  EXPECT_EQ(dag.size(), 4);
  EXPECT_EQ(ListOf(dag.producers(3)), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(ListOf(dag.consumers(0)), (std::vector<int32_t>{1, 3}));
  EXPECT_TRUE(dag.producers(0).empty());
  EXPECT_TRUE(dag.consumers(1).empty());
  EXPECT_EQ(*dag.Order(), (std::vector<int32_t>{0, 2, 1, 3}));
  EXPECT_EQ(*Dag(0, Edges{}).Order(), std::vector<int32_t>{});
  EXPECT_FALSE(Dag(3, Edges{{0, 1}, {1, 2}, {2, 1}}).Order().has_value());
}

struct RandomDag {
  Dag dag;
  std::vector<bool> control_flow;
};
RandomDag Random(uint32_t seed) {
  std::mt19937 random(seed);
  const auto n = static_cast<int32_t>(1 + random() % 60);
  const uint64_t reach = 1 + random() % 12, most = 1 + random() % 3;
  std::vector<int32_t> names(static_cast<size_t>(n));  // ids need not follow the order
  for (int32_t i = 0; i < n; ++i) names[static_cast<size_t>(i)] = i;
  if (seed % 2 == 1) std::shuffle(names.begin(), names.end(), random);
  Edges edges;
  for (int32_t v = 1; v < n; ++v) {
    for (uint64_t k = random() % (most + 1); k > 0; --k) {
      const auto back = static_cast<int32_t>(1 + random() % reach);
      edges.emplace_back(names[static_cast<size_t>(std::max(v - back, 0))],
                         names[static_cast<size_t>(v)]);
    }
  }
  RandomDag made{Dag(n, edges), std::vector<bool>(static_cast<size_t>(n))};
  for (size_t i = 0; i < made.control_flow.size(); ++i) made.control_flow[i] = random() % 9 == 0;
  return made;
}

// The definition, looked up unit by unit.
TEST(Branches, FollowTheDefinition) {
  for (uint32_t seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE(seed);
    const auto [dag, control_flow] = Random(seed);
    const Branches found = FindBranches(dag, control_flow);
    const auto kind = [&](int32_t u) { return found.kinds[static_cast<size_t>(u)]; };
    const auto branch = [&](int32_t u) { return found.of_unit[static_cast<size_t>(u)]; };
    std::vector<int> times(static_cast<size_t>(dag.size()), 0);
    for (size_t b = 0; b < found.branches.size(); ++b) {
      const std::vector<int32_t>& units = found.branches[b].units;
      ASSERT_FALSE(units.empty());
      for (size_t i = 0; i < units.size(); ++i) {
        ++times[static_cast<size_t>(units[i])];
        ASSERT_EQ(branch(units[i]), static_cast<int32_t>(b));
        if (i == 0) continue;  // a chain
        ASSERT_EQ(ListOf(dag.consumers(units[i - 1])), std::vector<int32_t>{units[i]});
        ASSERT_EQ(ListOf(dag.producers(units[i])), std::vector<int32_t>{units[i - 1]});
        ASSERT_NE(kind(units[i - 1]), UnitKind::kSplitMerge);
        ASSERT_NE(kind(units[i]), UnitKind::kSplitMerge);
      }
      // Maximal: something keeps the first unit from following its producer.
      const int32_t first = units[0];
      const auto producers = dag.producers(first);
      const bool starts = kind(first) == UnitKind::kMerger ||
                          kind(first) == UnitKind::kSplitMerge || producers.empty() ||
                          kind(producers[0]) == UnitKind::kSplitter ||
                          kind(producers[0]) == UnitKind::kSplitMerge;
      ASSERT_TRUE(starts);
    }
    ASSERT_TRUE(std::all_of(times.begin(), times.end(), [](int t) { return t == 1; }));
    for (int32_t u = 0; u < dag.size(); ++u) {
      const bool in = dag.producers(u).size() > 1, out = dag.consumers(u).size() > 1;
      UnitKind want = in ? (out ? UnitKind::kSplitMerge : UnitKind::kMerger)
                         : (out ? UnitKind::kSplitter : UnitKind::kSequential);
      if (control_flow[static_cast<size_t>(u)]) want = UnitKind::kSplitMerge;
      ASSERT_EQ(kind(u), want);
    }
    // Layers: dependencies lead to higher ones, and from the one below: so none is too many.
    std::vector<int> lowest(found.branches.size(), 0);
    std::vector<int> width(static_cast<size_t>(found.layers), 0);
    for (int32_t u = 0; u < dag.size(); ++u) {
      for (int32_t to : dag.consumers(u)) {
        if (branch(u) == branch(to)) continue;
        const int32_t from = found.branches[static_cast<size_t>(branch(u))].layer;
        ASSERT_LT(from, found.branches[static_cast<size_t>(branch(to))].layer);
        int& low = lowest[static_cast<size_t>(branch(to))];
        low = std::max(low, from + 1);
      }
    }
    for (size_t b = 0; b < found.branches.size(); ++b) {
      ASSERT_EQ(found.branches[b].layer, lowest[b]);
      ++width[static_cast<size_t>(lowest[b])];
    }
    ASSERT_EQ(found.max_branches, *std::max_element(width.begin(), width.end()));
    ASSERT_EQ(found.parallel_layers,
              std::count_if(width.begin(), width.end(), [](int w) { return w >= 2; }));
  }
}

Model Import(const std::string& body) {
  Result<Model> model = testing::ImportText("<ir_version: 8, opset_import: [\"\" : 17]>\n" + body);
  EXPECT_TRUE(model.ok()) << model.error().message();
  return model.ok() ? std::move(*model) : Model();
}

// 0 splits; 1-2 and 3 run side by side; 4 merges and 5 goes on.
constexpr const char* kDiamond = R"(g (float[2] x) => (float[2] y) {
  a = Relu(x)  b = Neg(a)  c = Abs(b)  d = Exp(a)  e = Add(c, d)  y = Tanh(e) })";

TEST(Branches, Diamond) {
  const Model model = Import(kDiamond);
  const Result<Units> units = MakeUnits(model.graph);
  ASSERT_TRUE(units.ok());
  const Branches found = FindBranches(*units);
  ASSERT_EQ(found.branches.size(), 4u);
  EXPECT_EQ(found.layers, 3);
  EXPECT_EQ(found.parallel_layers, 1);
  EXPECT_EQ(found.max_branches, 2);
  EXPECT_EQ(found.kinds[0], UnitKind::kSplitter);
  EXPECT_EQ(found.kinds[4], UnitKind::kMerger);
  EXPECT_EQ(found.of_unit[1], found.of_unit[2]);
  EXPECT_EQ(found.of_unit[4], found.of_unit[5]);
}

TEST(Units, ARegionIsOne) {
  const Model model = Import(kDiamond);
  const Result<Units> units = MakeUnits(model.graph, std::vector<int32_t>{-1, 7, 7, -1, -1, -1});
  ASSERT_TRUE(units.ok());
  ASSERT_EQ(units->units.size(), 5u);
  EXPECT_EQ(units->units[1].region, 7);
  EXPECT_EQ(units->units[1].nodes, (std::vector<NodeId>{1, 2}));
  EXPECT_EQ(units->of_node, (std::vector<int32_t>{0, 1, 1, 2, 3, 4}));
  // c and e are on the delegate and d between them is not.
  const Result<Units> cyclic = MakeUnits(model.graph, std::vector<int32_t>{0, -1, -1, -1, 0, -1});
  EXPECT_FALSE(cyclic.ok());
}

TEST(Branches, ControlFlowIsAlone) {
  const Model model = Import(R"(g (float[2] x, bool c) => (float[2] y) {
    a = Relu(x)
    b = If (c) <then_branch = t () => (float[2] p) { p = Neg(a) },
                else_branch = e () => (float[2] q) { q = Abs(a) }>
    d = Exp(b)  y = Tanh(d) })");
  const Result<Units> units = MakeUnits(model.graph);
  ASSERT_TRUE(units.ok());
  ASSERT_EQ(units->units.size(), 4u);
  EXPECT_EQ(ListOf(units->dag.producers(1)), std::vector<int32_t>{0});  // what its bodies read
  const Branches found = FindBranches(*units);
  EXPECT_EQ(found.kinds[1], UnitKind::kSplitMerge);
  ASSERT_EQ(found.branches.size(), 3u);
  EXPECT_EQ(found.branches[1].units, std::vector<int32_t>{1});
  EXPECT_EQ(found.branches[2].units, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(found.layers, 3);
}

TEST(Branches, EmptyGraph) {
  const Branches found = FindBranches(Dag());
  EXPECT_EQ(found.layers, 0);
  EXPECT_EQ(found.max_branches, 0);
  EXPECT_TRUE(found.branches.empty());
}

}  // namespace
}  // namespace parallax::plan
