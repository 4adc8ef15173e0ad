#include "plan/branches.h"

#include <algorithm>
#include <unordered_map>

namespace parallax::plan {
namespace {

UnitKind KindOf(const Dag& dag, int32_t u, bool control_flow) {
  if (control_flow) return UnitKind::kSplitMerge;
  const bool merges = dag.producers(u).size() > 1, splits = dag.consumers(u).size() > 1;
  if (merges) return splits ? UnitKind::kSplitMerge : UnitKind::kMerger;
  return splits ? UnitKind::kSplitter : UnitKind::kSequential;
}

// The unit that goes on the branch behind `u`, or -1.
int32_t Next(const Dag& dag, const std::vector<UnitKind>& kinds, int32_t u) {
  const UnitKind kind = kinds[static_cast<size_t>(u)];
  if (kind == UnitKind::kSplitter || kind == UnitKind::kSplitMerge || dag.consumers(u).empty()) {
    return -1;
  }
  const int32_t next = dag.consumers(u)[0];
  // What has one producer is a Split-Merge as control flow only.
  const bool joins =
      dag.producers(next).size() == 1 && kinds[static_cast<size_t>(next)] != UnitKind::kSplitMerge;
  return joins ? next : -1;
}

bool IsControlFlow(const Node& n) {
  return n.domain.empty() && (n.op == "If" || n.op == "Loop" || n.op == "Scan");
}

}  // namespace

Result<Units> MakeUnits(const Graph& graph, std::span<const int32_t> region_of) {
  Units made;
  std::unordered_map<int32_t, int32_t> unit_of_region;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int32_t region = region_of.empty() ? -1 : region_of[i];
    auto unit = static_cast<int32_t>(made.units.size());
    if (region >= 0) unit = unit_of_region.try_emplace(region, unit).first->second;
    if (unit == static_cast<int32_t>(made.units.size())) {
      made.units.push_back({region, region < 0 && IsControlFlow(graph.nodes[i]), {}});
    }
    made.units[static_cast<size_t>(unit)].nodes.push_back(static_cast<NodeId>(i));
    made.of_node.push_back(unit);
  }
  std::vector<Dag::Edge> edges;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId v : graph.nodes[i].inputs) {
      if (v == kNoValue || graph.value(v).origin != ValueOrigin::kNode) continue;
      edges.emplace_back(made.of_node[static_cast<size_t>(graph.value(v).producer)],
                         made.of_node[i]);
    }
  }
  made.dag = Dag(static_cast<int32_t>(made.units.size()), edges);
  if (!made.dag.Order()) {
    return MakeError(ErrorCode::kInternal, "regions lead back into each other");
  }
  return made;
}

Branches FindBranches(const Dag& dag, const std::vector<bool>& control_flow) {
  const auto count = static_cast<size_t>(dag.size());
  Branches found;
  found.kinds.resize(count);
  for (size_t u = 0; u < count; ++u) {
    found.kinds[u] = KindOf(dag, static_cast<int32_t>(u), !control_flow.empty() && control_flow[u]);
  }
  found.of_unit.assign(count, -1);
  const std::vector<int32_t> order = *dag.Order();
  for (const int32_t first : order) {
    if (found.of_unit[static_cast<size_t>(first)] >= 0) continue;
    Branch branch;
    // Only the first unit has producers in other branches, which stand before it in the order.
    for (int32_t p : dag.producers(first)) {
      const int32_t before = found.of_unit[static_cast<size_t>(p)];
      branch.layer = std::max(branch.layer, found.branches[static_cast<size_t>(before)].layer + 1);
    }
    for (int32_t u = first; u >= 0; u = Next(dag, found.kinds, u)) {
      found.of_unit[static_cast<size_t>(u)] = static_cast<int32_t>(found.branches.size());
      branch.units.push_back(u);
    }
    found.branches.push_back(std::move(branch));
  }
  std::vector<int32_t> width;
  for (const Branch& b : found.branches) {
    width.resize(std::max(width.size(), static_cast<size_t>(b.layer) + 1), 0);
    ++width[static_cast<size_t>(b.layer)];
  }
  found.layers = static_cast<int32_t>(width.size());
  for (int32_t w : width) {
    found.parallel_layers += w >= 2 ? 1 : 0;
    found.max_branches = std::max(found.max_branches, w);
  }
  return found;
}

Branches FindBranches(const Units& units) {
  std::vector<bool> control_flow;
  for (const Unit& u : units.units) control_flow.push_back(u.control_flow);
  return FindBranches(units.dag, control_flow);
}

}  // namespace parallax::plan
