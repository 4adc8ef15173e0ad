// SlotCache: what a backend's slots hold and what it has parked in memory, by one set of rules.
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
//             (--kv-unified, the default where -np is not given).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
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

  // A request on its way, by a number of the caller's; 0: none.
  using Run = uint64_t;

  struct Choice {
    size_t slot = 0;        // may be the number of slots used so far: an empty one
    size_t parked = kNone;  // the parked sequence that is loaded into it
    size_t common = 0;      // symbols shared with what the slot then holds
    bool replaces = false;  // what the slot holds is parked first
  };
  // What was believed of a run when it began.
  struct Belief {
    size_t held = 0;
    uint64_t loaded = 0;  // the parked sequence it was to use; 0: none
  };

  explicit SlotCache(const Rules& rules) : rules_(rules) {}

  // Where a prompt of `prompt` symbols goes, of which the tree stores `at`: to an idle slot, or
  // where none is idle to the one that would be right if all were.
  Choice Choose(const RadixTree::Position& at, size_t prompt) const;
  // How many of its symbols are there when it is processed.
  size_t Held(const Choice& choice) const;
  Belief BeliefOf(const Choice& choice) const;
  bool HasIdleSlot() const;

  // It is being processed there; its `length` symbols are stored down to `end`. Nodes at which
  // nothing ends any more are appended to `released`, once for each time; so in all that follow.
  void Begin(const Choice& choice, Run run, Node* end, size_t length, std::vector<Node*>& released);
  // It left, or leaves after all, a sequence of `length` symbols. False where its sequence is not
  // here.
  bool Finish(Run run, Node* end, size_t length, uint64_t use, std::vector<Node*>& released);
  // It ended without a word of what it left: its slot is idle and counts as empty.
  void Abandon(Run run, std::vector<Node*>& released);
  // Nothing where that run did not begin here.
  std::optional<Belief> BeliefOf(Run run) const;
  // A parked sequence was not there: it and the older ones are gone, and no more than what is left
  // seems to fit.
  void Missed(uint64_t loaded, std::vector<Node*>& released);
  // Its predictions hold: what fits may be more than was thought.
  void Confirmed();

  // `leaf` is about to go: what ended there ends at its parent now.
  void RemoveNode(const Node* leaf);

  int64_t bytes() const;  // of its lists, beside the object itself
  const Rules& rules() const { return rules_; }

 private:
  struct Sequence {
    Node* end = nullptr;
    size_t length = 0;    // with what is unknown or was evicted; 0: empty
    Run run = 0;          // that left it
    uint64_t serial = 0;  // of parked ones, in the order in which they were parked
  };
  struct Slot : Sequence {
    bool busy = false;
    uint64_t use = 0;  // when it became idle
    Belief belief;     // of its run
  };
  static size_t CommonLength(const Sequence& a, const Sequence& b);
  void Park(const Sequence& sequence, std::vector<Node*>& released);
  void Unpark(size_t index, std::vector<Node*>& released);
  size_t ParkedSymbols() const;

  Rules rules_;
  std::vector<Slot> slots_;
  std::vector<Sequence> parked_;  // the oldest first
  uint64_t last_serial_ = 0;
  double fits_ = std::numeric_limits<double>::infinity();  // symbols that may be parked
};

// Symbols shared by what the tree stores of a prompt and the sequence that ends at `end`.
size_t CommonLength(const RadixTree::Position& at, const RadixTree::Node* end);

}  // namespace parallax::router
