// LruCapacity: what a backend's LRU cache of unknown size still holds, learned from its reports.
//
// Role:       PrefixIndex keeps one for each LRU backend.
// Ownership:  a value; borrows tree and stack for each call.
// Threads:    const calls may run at once.
// Cost:       O(path log nodes) at worst; O(log nodes) where everything still fits.
// Invariants: capacities are never below the longest sequence seen lately: a backend holds what it
//             has just processed.
//
// Two kinds of cache are in use and cannot be told apart beforehand: some evict blocks of tokens
// (RadixAttention, paged attention), so the start of an old sequence may outlive its end; others
// whole sequences (llama-server's host prompt cache). Both capacities are learned side by side, and
// the kind whose predictions have lately been closer is believed. Example:
//   size_t held = capacity.Held(stack, {node, total});
//   bool explained = capacity.Learn(stack, {node, total}, reported, reusable, prompt_size, 1);
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "router/radix_tree.h"
#include "router/recency_stack.h"

namespace parallax::router {

class LruCapacity {
 public:
  // The stored part of a prompt: its last node and its length.
  struct Stored {
    const RadixTree::Node* node;
    size_t total;
  };

  // 0: unknown, everything is believed to fit until a miss.
  explicit LruCapacity(double symbols = 0);

  // How much of the stored part is still resident.
  size_t Held(const RecencyStack& stack, Stored stored) const;

  // A request whose prompt of `prompt` symbols had this stored part reused `reported` of `reusable`
  // symbols, in whole granules. Returns whether a miss, if there was one, can be explained by a
  // capacity of plausible size.
  bool Learn(const RecencyStack& stack, Stored stored, size_t reported, size_t reusable,
             size_t prompt, size_t granule);

  // A sequence of this length was processed.
  void Processed(size_t length);

  // 0 where unknown.
  int64_t symbols() const;

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  struct Kind {
    double capacity = kUnknown;
    double error = 0;  // running mean of |held - reported| / prompt
    void Raise(double at_least);
    void Lower(double at_most, double least);
  };

  static size_t HeldBlocks(const RecencyStack& stack, Stored stored, double capacity);
  static size_t HeldSequences(const RecencyStack& stack, Stored stored, double capacity);
  bool ByBlocks() const { return blocks_.error <= sequences_.error; }

  Kind blocks_;
  Kind sequences_;
  double longest_ = 0;  // sequence processed lately; fades
};

}  // namespace parallax::router
