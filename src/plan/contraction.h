// Contraction: a Dag some of whose vertices are taken as one, which stays acyclic.
//
// Two groups may become one where no path leads from one to the other through a third: the union is then
// convex (nothing leaves and comes back), and no cycle arises between groups.
//
// Role:       what regions of a partition grow with.
// Ownership:  a value.
// Threads:    used by one thread.
// Cost:       a merge looks at what lies between the two in a topological order that it keeps, from both ends at
//             once until one has no more (as D. Pearce, P. Kelly, "A dynamic topological sort algorithm",
//             2006, do for a new edge): in networks some tens of vertices.
// Example:
//   Contraction c(dag);
//   if (c.Merge(a, b)) ...       // c.Find(a) == c.Find(b)
#pragma once

#include <cstdint>
#include <vector>

#include "plan/dag.h"

namespace parallax::plan {

class Contraction {
 public:
  // Each vertex alone. REQUIRES: no cycle.
  explicit Contraction(const Dag& dag);

  // The group of a vertex: the number of one of its vertices.
  int32_t Find(int32_t v);
  // Makes the groups of both one, if they may be; whether they are one now.
  bool Merge(int32_t a, int32_t b);

 private:
  struct Group {
    int64_t label = 0;                // ascending in the order
    int32_t before = -1, after = -1;  // its neighbours there
    std::vector<int32_t> in, out;
  };
  // What is found from one end without passing the other.
  struct Side {
    bool forward = true;
    std::vector<int32_t> found, stack;
    size_t edges = 0;  // looked at
    int64_t search = 0;
  };
  Group& group(int32_t g) { return groups_[static_cast<size_t>(g)]; }
  std::vector<int32_t>& Neighbours(int32_t g, bool forward) {
    return forward ? group(g).out : group(g).in;
  }
  // Neighbours as the groups that they are in now, each once.
  std::vector<int32_t>& Fresh(int32_t g, bool forward);
  // Looks at one more vertex of `side`; whether a path leads from it to the other end `goal`.
  bool Meets(Side& side, const Side& other, int32_t start, int32_t goal);
  void Unlink(int32_t g);
  // Puts the groups, in their order, next to `at`.
  void Place(std::vector<int32_t> moved, int32_t at, bool behind);
  void Relabel();

  int32_t first_ = -1;  // in the order
  std::vector<int32_t> parent_;
  std::vector<Group> groups_;  // by their Find()
  std::vector<int64_t> seen_;  // by group: the last search that met it
  int64_t searches_ = 0;
};

}  // namespace parallax::plan
