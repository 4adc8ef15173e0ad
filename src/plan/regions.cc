#include "plan/regions.h"

#include "plan/contraction.h"

namespace parallax::plan {

std::vector<int32_t> MaximalRegions(const Dag& dag, const std::vector<bool>& supported) {
  Contraction contraction(dag);
  // A merge may make another one possible. While any two regions or more could be one, some edge among them
  // has no way round it (each on a longest path is such a one), so that none is left when none changes.
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
