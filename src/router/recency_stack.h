// RecencyStack: the nodes of one RadixTree in order of use, with the size of all that is newer.
//
// Role:       tells PrefixIndex what an LRU cache of a given size would still hold, and what to
//             evict.
// Ownership:  owns its counters; links nodes through their own hooks.
// Threads:    const calls may run at once.
// Cost:       Use and Remove O(log nodes) amortised; NewerThan O(log nodes).
// Invariants: Node::stamp ascends from the oldest to the newest. Using a path from its end to the
//             root makes ancestors newer than descendants, so the oldest node is always a leaf.
// Source:     stack distances after Mattson et al. (1970), counted in a Fenwick tree over the order
//             of use.
// Example:
//   stack.Use(node);
//   bool resident = stack.NewerThan(node) + node->length <= capacity;
#pragma once

#include <cstdint>
#include <vector>

#include "router/radix_tree.h"

namespace parallax::router {

class RecencyStack {
 public:
  using Node = RadixTree::Node;

  // Makes `node` the newest; adds it if it is new here (`stamp` 0).
  void Use(Node* node);
  void Remove(Node* node);
  // `node`, which is here, was `before` symbols long.
  void Resized(const Node* node, uint32_t before);

  // Symbols of all nodes used after `node`.
  int64_t NewerThan(const Node* node) const { return total_ - Prefix(node->stamp); }
  Node* oldest() const { return oldest_; }
  int64_t bytes() const;

 private:
  void Unlink(Node* node);
  void Add(uint32_t stamp, int64_t symbols);
  int64_t Prefix(uint32_t stamp) const;
  void Renumber();

  Node* newest_ = nullptr;
  Node* oldest_ = nullptr;
  uint32_t next_stamp_ = 1;  // 0 marks a node that is not here
  int64_t count_ = 0;
  int64_t total_ = 0;          // symbols of all nodes here
  std::vector<int64_t> sums_;  // Fenwick tree; index = stamp
};

}  // namespace parallax::router
