#include "plan/dag.h"

namespace parallax::plan {

// Lists of the other direction: ascending, since the sources are walked in that order, and with equal
// edges next to each other, of which one stays.
Dag::Lists Dag::Turned(const Lists& lists, int32_t vertices) {
  Lists turned;
  turned.starts.assign(static_cast<size_t>(vertices) + 1, 0);
  std::vector<int32_t> last(static_cast<size_t>(vertices), -1);
  const auto each = [&](auto f) {
    last.assign(last.size(), -1);
    for (int32_t v = 0; v < vertices; ++v) {
      for (int32_t to : lists.of(v)) {
        if (to == v || last[static_cast<size_t>(to)] == v) continue;
        last[static_cast<size_t>(to)] = v;
        f(v, static_cast<size_t>(to));
      }
    }
  };
  each([&](int32_t, size_t to) { ++turned.starts[to + 1]; });
  for (size_t i = 1; i < turned.starts.size(); ++i) turned.starts[i] += turned.starts[i - 1];
  turned.targets.resize(static_cast<size_t>(turned.starts.back()));
  std::vector<int32_t> at(turned.starts.begin(), turned.starts.end() - 1);
  each([&](int32_t v, size_t to) { turned.targets[static_cast<size_t>(at[to]++)] = v; });
  return turned;
}

Dag::Dag(int32_t vertices, std::span<const Edge> edges) {
  Lists given;  // by producer, in the order of the edges
  given.starts.assign(static_cast<size_t>(vertices) + 1, 0);
  for (const Edge& e : edges) ++given.starts[static_cast<size_t>(e.first) + 1];
  for (size_t i = 1; i < given.starts.size(); ++i) given.starts[i] += given.starts[i - 1];
  given.targets.resize(edges.size());
  std::vector<int32_t> at(given.starts.begin(), given.starts.end() - 1);
  for (const Edge& e : edges) {
    given.targets[static_cast<size_t>(at[static_cast<size_t>(e.first)]++)] = e.second;
  }
  in_ = Turned(given, vertices);
  out_ = Turned(in_, vertices);
}

std::optional<std::vector<int32_t>> Dag::Order() const {
  std::vector<int32_t> waits(static_cast<size_t>(size())), order;
  order.reserve(waits.size());
  for (int32_t v = 0; v < size(); ++v) {
    waits[static_cast<size_t>(v)] = static_cast<int32_t>(producers(v).size());
    if (producers(v).empty()) order.push_back(v);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (int32_t to : consumers(order[i])) {
      if (--waits[static_cast<size_t>(to)] == 0) order.push_back(to);
    }
  }
  if (order.size() != waits.size()) return std::nullopt;
  return order;
}

}  // namespace parallax::plan
