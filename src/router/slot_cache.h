// SlotCache: what a backend's slots hold and what it has parked in host memory, by one set of rules.
//
// Role:       PrefixIndex keeps one where the rules are known, and several side by side where a
//             llama-server's settings are not, of which it believes the one whose predictions came
//             closest.
// Ownership:  owns its lists; borrows the nodes of the RadixTree in which PrefixIndex stores the
//             sequences, and counts itself in Node::holders of each node at which one of its ends.
// Threads:    const calls may run at once.
// Cost:       O((slots + parked) x depth of the tree); at most kMaxParked sequences are parked.
// Invariants: no sequence is longer than what was processed; nothing points at a removed node, as
//             long as RemoveNode is told.
// Source:     llama-server (b11434), get_available_slot and server_prompt_cache: a prompt goes to
//             the idle slot with the longest common prefix if that exceeds `similarity` of the
//             prompt, else to the slot used least recently. Where the slot would lose more than
//             half of what it holds, that is parked in host memory first (--cache-ram), and a
//             parked sequence which shares more with the prompt and is used up by it to a greater
//             part takes its place. A new request parks what the idle slots hold
//             (--cache-idle-slots), and empties them where all slots share one KV buffer
//             (--kv-unified, the default where -np is not given). Busy slots cannot be chosen; that
//             is not modelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "router/radix_tree.h"

namespace parallax::router {

class SlotCache {
 public:
  using Node = RadixTree::Node;
  static constexpr size_t kMaxParked = 128;
  static constexpr size_t kNone = SIZE_MAX;

  struct Rules {
    std::string_view name = "slots";  // for people; of static storage
    size_t slots = 1;
    double similarity = 0.10;  // llama-server's slot_prompt_similarity
    // What a slot holds is of use only to a prompt that continues all of it (RKLLM).
    bool extension_only = false;
    bool parks = false;        // a host prompt cache
    bool parks_idle = false;   // a request parks what the other slots hold,
    bool clears_idle = false;  // and takes it from them
  };

  struct Choice {
    size_t slot = 0;        // may be the number of slots used so far: an empty one
    size_t parked = kNone;  // the parked sequence that is loaded into it
    size_t common = 0;      // symbols shared with what the slot then holds
    bool replaces = false;  // what the slot holds is parked first
  };

  explicit SlotCache(const Rules& rules) : rules_(rules) {}

  // Where a prompt of `prompt` symbols goes, of which the tree stores `at`.
  Choice Choose(const RadixTree::Position& at, size_t prompt) const;
  // How many of its symbols are there when it is processed.
  size_t Held(const Choice& choice) const;

  // It was processed and left a sequence of `length` symbols, stored down to `end`. Nodes at which
  // nothing ends any more are appended to `released`, once for each time.
  void Processed(const Choice& choice, Node* end, size_t length, uint64_t use,
                 std::vector<Node*>& released);
  // The parked sequence that was to be loaded was not there: it and the older ones are gone, and no
  // more than what is left seems to fit.
  void Missed(const Choice& choice, std::vector<Node*>& released);
  // Its predictions hold: what fits may be more than was thought.
  void Confirmed();

  // `leaf` is about to go: what ended there ends at its parent now.
  void RemoveNode(const Node* leaf);

  int64_t bytes() const;  // of its lists, beside the object itself
  const Rules& rules() const { return rules_; }

 private:
  struct Sequence {
    Node* end = nullptr;
    size_t length = 0;  // with what is unknown or was evicted; 0: empty
    uint64_t use = 0;
  };
  static size_t CommonLength(const Sequence& a, const Sequence& b);
  void Park(const Sequence& sequence, std::vector<Node*>& released);
  void Unpark(size_t index, std::vector<Node*>& released);
  size_t ParkedSymbols() const;

  Rules rules_;
  std::vector<Sequence> slots_;
  std::vector<Sequence> parked_;                           // the oldest first
  double fits_ = std::numeric_limits<double>::infinity();  // symbols that may be parked
};

// Symbols shared by what the tree stores of a prompt and the sequence that ends at `end`.
size_t CommonLength(const RadixTree::Position& at, const RadixTree::Node* end);

}  // namespace parallax::router
