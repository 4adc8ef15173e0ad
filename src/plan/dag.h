// Dag: what depends on what among the things a plan places, each edge once.
//
// Role:       nodes, units and regions of a graph, contracted or not, for partition, branches and schedule.
// Ownership:  a value.
// Threads:    immutable once made.
// Cost:       O(V + E) to make, with edges given in any order and any number of times.
// Example:
//   Dag dag(3, edges);                       // {{0, 2}, {1, 2}, {0, 2}}
//   for (int32_t p : dag.producers(2)) ...   // 0, 1
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace parallax::plan {

class Dag {
 public:
  // From producer to consumer, both in [0, vertices).
  using Edge = std::pair<int32_t, int32_t>;

  Dag() = default;
  // An edge from a vertex to itself is left out.
  Dag(int32_t vertices, std::span<const Edge> edges);

  int32_t size() const { return static_cast<int32_t>(in_.starts.size()) - 1; }
  // Distinct, in ascending order.
  std::span<const int32_t> producers(int32_t v) const { return in_.of(v); }
  std::span<const int32_t> consumers(int32_t v) const { return out_.of(v); }

  // The vertices, each behind all that it depends on, and otherwise as near to ascending as that leaves
  // them: of those that are ready the one that became so first. Nothing where there is a cycle.
  std::optional<std::vector<int32_t>> Order() const;

 private:
  // Lists of all vertices behind each other.
  struct Lists {
    std::vector<int32_t> starts = {0}, targets;
    std::span<const int32_t> of(int32_t v) const {
      const auto i = static_cast<size_t>(v);
      return {targets.data() + starts[i], targets.data() + starts[i + 1]};
    }
  };
  static Lists Turned(const Lists& lists, int32_t vertices);

  Lists in_, out_;
};

}  // namespace parallax::plan
