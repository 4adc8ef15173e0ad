#include "plan/regions.h"

#include <algorithm>
#include <numeric>

#include "plan/contraction.h"

namespace parallax::plan {
namespace {

// Supported vertices that follow each other without a change of processor before them: what has come that
// far after equally many changes. Edges between such groups lead to more changes only, so that they are
// convex, and no cycle arises. Most vertices of a region are found so, in one pass.
std::vector<int32_t> ByChanges(const Dag& dag, const std::vector<bool>& supported) {
  const auto count = static_cast<size_t>(dag.size());
  std::vector<int32_t> changes(count, 0), root(count);
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int32_t v) {
    while (root[static_cast<size_t>(v)] != v) {
      v = root[static_cast<size_t>(v)] = root[static_cast<size_t>(root[static_cast<size_t>(v)])];
    }
    return v;
  };
  const std::vector<int32_t> order = *dag.Order();
  for (const int32_t v : order) {
    const auto at = static_cast<size_t>(v);
    for (int32_t p : dag.producers(v)) {
      const auto from = static_cast<size_t>(p);
      changes[at] =
          std::max(changes[at], changes[from] + (supported[from] != supported[at] ? 1 : 0));
    }
    for (int32_t p : dag.producers(v)) {
      const auto from = static_cast<size_t>(p);
      if (supported[at] && supported[from] && changes[from] == changes[at]) {
        root[static_cast<size_t>(find(v))] = find(p);
      }
    }
  }
  std::vector<int32_t> group(count, -1);
  for (size_t v = 0; v < count; ++v) {
    if (supported[v]) group[v] = find(static_cast<int32_t>(v));
  }
  return group;
}

}  // namespace

std::vector<int32_t> MaximalRegions(const Dag& dag, const std::vector<bool>& supported) {
  Contraction contraction(dag, ByChanges(dag, supported));
  // Two may be one only once others are; where there is an edge between two that could be one, there is
  // one of no longer way round, so that trying edges until nothing changes finds all.
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t v = 0; v < dag.size(); ++v) {
      if (!supported[static_cast<size_t>(v)]) continue;
      for (int32_t to : dag.consumers(v)) {
        if (!supported[static_cast<size_t>(to)]) continue;
        if (contraction.Find(v) == contraction.Find(to)) continue;
        changed |= contraction.Merge(v, to);
      }
    }
  }
  std::vector<int32_t> region(supported.size(), -1), number(supported.size(), -1);
  int32_t next = 0;
  for (size_t v = 0; v < supported.size(); ++v) {
    if (!supported[v]) continue;
    int32_t& n = number[static_cast<size_t>(contraction.Find(static_cast<int32_t>(v)))];
    if (n < 0) n = next++;
    region[v] = n;
  }
  return region;
}

}  // namespace parallax::plan
