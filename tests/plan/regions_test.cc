#include "plan/regions.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "plan/contraction.h"

namespace parallax::plan {
namespace {

using Edges = std::vector<Dag::Edge>;

struct Case {
  Dag dag;
  Edges edges;
  std::vector<bool> supported;
};
Case Random(uint32_t seed, int32_t least, int32_t most) {
  std::mt19937 random(seed);
  const auto pick = [&](int64_t from, int64_t to) {
    return static_cast<int32_t>(std::uniform_int_distribution<int64_t>(from, to)(random));
  };
  const int32_t n = pick(least, most), reach = pick(1, 15), in = pick(1, 3);
  std::vector<int32_t> names(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) names[static_cast<size_t>(i)] = i;
  if (pick(0, 1) == 1) std::shuffle(names.begin(), names.end(), random);
  Case c;
  for (int32_t v = 1; v < n; ++v) {
    for (int32_t k = pick(0, in); k > 0; --k) {
      c.edges.emplace_back(names[static_cast<size_t>(std::max(v - pick(1, reach), 0))],
                           names[static_cast<size_t>(v)]);
    }
  }
  c.dag = Dag(n, c.edges);
  const int32_t share = pick(1, 9);
  for (int32_t v = 0; v < n; ++v) c.supported.push_back(pick(1, 10) <= share);
  return c;
}

// The graph with each region one vertex, looked at from scratch.
bool Acyclic(const Case& c, const std::vector<int32_t>& region) {
  const auto n = c.dag.size();
  const auto at = [&](int32_t v) {
    const int32_t r = region[static_cast<size_t>(v)];
    return r < 0 ? v : n + r;
  };
  Edges edges;
  for (const auto& [from, to] : c.edges) edges.emplace_back(at(from), at(to));
  return Dag(2 * n, edges).Order().has_value();
}

void Check(const Case& c, bool maximal) {
  const std::vector<int32_t> region = MaximalRegions(c.dag, c.supported);
  for (size_t v = 0; v < region.size(); ++v) ASSERT_EQ(region[v] >= 0, c.supported[v]);
  ASSERT_TRUE(Acyclic(c, region));
  if (!maximal) return;
  for (const auto& [from, to] : c.edges) {
    const int32_t a = region[static_cast<size_t>(from)], b = region[static_cast<size_t>(to)];
    if (a < 0 || b < 0 || a == b) continue;
    std::vector<int32_t> joined = region;
    std::replace(joined.begin(), joined.end(), b, a);
    ASSERT_FALSE(Acyclic(c, joined)) << from << " and " << to << " could be one";
  }
}

TEST(MaximalRegions, ConvexAndMaximalOnSmallGraphs) {
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    Check(Random(seed, 1, 20), /*maximal=*/true);
    if (HasFatalFailure()) return;
  }
}

TEST(MaximalRegions, AcyclicOnLargerGraphs) {
  for (uint32_t seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE(seed);
    Check(Random(seed, 50, 500), /*maximal=*/seed % 100 == 0);
    if (HasFatalFailure()) return;
  }
}

// a = Add(x, 1), b = Neg(a), c = Mul(a, b): a and c are never one.
TEST(MaximalRegions, NoCycleAroundWhatIsNotSupported) {
  const Edges edges = {{0, 1}, {0, 2}, {1, 2}};
  EXPECT_EQ(MaximalRegions(Dag(3, edges), {true, false, true}), (std::vector<int32_t>{0, -1, 1}));
  EXPECT_EQ(MaximalRegions(Dag(3, edges), {true, true, true}), (std::vector<int32_t>{0, 0, 0}));
}

// What is not supported stands beside the two, not between them.
TEST(MaximalRegions, JoinsAcrossAnInputFromElsewhere) {
  const Edges edges = {{0, 2}, {1, 2}};
  EXPECT_EQ(MaximalRegions(Dag(3, edges), {true, false, true}), (std::vector<int32_t>{0, -1, 0}));
}

TEST(MaximalRegions, UnconnectedOnesAreApart) {
  EXPECT_EQ(MaximalRegions(Dag(4, Edges{{0, 1}, {2, 3}}), {true, true, true, true}),
            (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_TRUE(MaximalRegions(Dag(), {}).empty());
}

// Merges in any order, also of what no edge connects: as a search from scratch says.
TEST(Contraction, MergesWhereNoPathLeadsRound) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const Case c = Random(seed, 2, 25);
    std::mt19937 random(seed);
    Contraction contraction(c.dag);
    std::vector<int32_t> group(static_cast<size_t>(c.dag.size()));
    for (size_t v = 0; v < group.size(); ++v) group[v] = static_cast<int32_t>(v);
    for (int tries = 0; tries < 40; ++tries) {
      const auto a = static_cast<int32_t>(random() % group.size());
      const auto b = static_cast<int32_t>(random() % group.size());
      std::vector<int32_t> joined = group;
      std::replace(joined.begin(), joined.end(), group[static_cast<size_t>(b)],
                   group[static_cast<size_t>(a)]);
      const bool may = Acyclic(c, joined);
      ASSERT_EQ(contraction.Merge(a, b), may);
      if (may) group = joined;
      for (size_t v = 0; v < group.size(); ++v) {
        for (size_t w = 0; w < v; ++w) {
          ASSERT_EQ(contraction.Find(static_cast<int32_t>(v)) ==
                        contraction.Find(static_cast<int32_t>(w)),
                    group[v] == group[w]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace parallax::plan
