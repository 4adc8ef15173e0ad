#include "router/slot_cache.h"

#include <algorithm>
#include <utility>

namespace parallax::router {
namespace {

using Node = RadixTree::Node;

// llama-server's: a slot that keeps less of what it holds parks it first; a parked sequence of
// which less would be used is left where it is.
constexpr float kLeastKept = 0.5F;
constexpr float kLeastUsed = 0.25F;
constexpr double kGrowth = 1.02;  // of what is thought to fit, for each confirmation

// The deepest node on the paths to both; a null pointer where one is.
const Node* Meeting(const Node* a, const Node* b) {
  while (a != b && a != nullptr && b != nullptr) {
    if (b->end > a->end) {
      b = b->parent;
    } else {
      a = a->parent;
    }
  }
  return a == b ? a : nullptr;
}

// As llama-server computes it, in single precision: decisions hang on its roundings.
float Share(size_t part, size_t whole) {
  return static_cast<float>(part) / static_cast<float>(whole);
}

// The root is held by the tree.
void Hold(Node* node) {
  if (node->parent != nullptr) ++node->holders;
}

}  // namespace

size_t CommonLength(const RadixTree::Position& at, const Node* end) {
  if (end == nullptr) return 0;
  const Node* meeting = Meeting(at.node, end);
  if (meeting == nullptr) return 0;
  return meeting == at.node ? std::min<size_t>(at.total, end->end) : meeting->end;
}

size_t SlotCache::CommonLength(const Sequence& a, const Sequence& b) {
  const Node* meeting = Meeting(a.end, b.end);
  return meeting == nullptr ? 0 : meeting->end;
}

bool SlotCache::HasIdleSlot() const {
  return slots_.size() < rules_.slots ||
         std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.busy; });
}

SlotCache::Choice SlotCache::Choose(const RadixTree::Position& at, size_t prompt) const {
  const bool idle_only = HasIdleSlot();
  const auto usable = [&](const Slot& slot) { return !idle_only || !slot.busy; };
  Choice best;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const size_t common = usable(slots_[i]) ? router::CommonLength(at, slots_[i].end) : 0;
    if (common > best.common) {
      best.slot = i;
      best.common = common;
    }
  }
  if (static_cast<double>(best.common) > rules_.similarity * static_cast<double>(prompt)) {
    best.replaces = Share(best.common, slots_[best.slot].length) < kLeastKept;
  } else if (slots_.size() < rules_.slots) {
    best = {slots_.size(), kNone, 0, true};
  } else {
    best = {kNone, kNone, 0, true};
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (!usable(slots_[i])) continue;
      if (best.slot == kNone || slots_[i].use < slots_[best.slot].use) best.slot = i;
    }
    best.common = router::CommonLength(at, slots_[best.slot].end);
  }
  best.replaces &= rules_.parks;
  if (!best.replaces || prompt == 0) return best;

  const bool empty = best.slot == slots_.size() || slots_[best.slot].length == 0;
  float used = empty ? -1 : Share(best.common, slots_[best.slot].length);
  float shared = Share(best.common, prompt);
  for (size_t i = 0; i < parked_.size(); ++i) {
    const size_t common = router::CommonLength(at, parked_[i].end);
    const float used_here = Share(common, parked_[i].length);
    const float shared_here = Share(common, prompt);
    if (used_here >= kLeastUsed && used_here > used && shared_here > shared) {
      used = used_here;
      shared = shared_here;
      best.parked = i;
      best.common = common;
    }
  }
  return best;
}

size_t SlotCache::Held(const Choice& choice) const {
  if (rules_.extension_only &&
      (choice.slot >= slots_.size() || choice.common < slots_[choice.slot].length)) {
    return 0;
  }
  return choice.common;
}

SlotCache::Belief SlotCache::BeliefOf(const Choice& choice) const {
  return {Held(choice), choice.parked == kNone ? 0 : parked_[choice.parked].serial};
}

void SlotCache::Begin(const Choice& choice, Run run, Node* end, size_t length,
                      std::vector<Node*>& released) {
  const Belief belief = BeliefOf(choice);
  if (choice.slot == slots_.size()) slots_.push_back({});
  if (choice.parked != kNone) Unpark(choice.parked, released);
  Slot& slot = slots_[choice.slot];
  if (choice.replaces) Park(slot, released);
  Hold(end);
  if (slot.end != nullptr) released.push_back(slot.end);
  slot.end = end;
  slot.length = length;
  slot.run = run;
  slot.busy = true;
  slot.belief = belief;

  if (!rules_.parks_idle) return;
  for (Slot& other : slots_) {
    if (other.busy || other.length == 0) continue;
    Park(other, released);
    if (!rules_.clears_idle) continue;
    released.push_back(std::exchange(other.end, nullptr));
    other.length = 0;
  }
}

bool SlotCache::Finish(Run run, Node* end, size_t length, uint64_t use,
                       std::vector<Node*>& released) {
  const auto leave = [&](Sequence& sequence) {
    Hold(end);
    if (sequence.end != nullptr) released.push_back(sequence.end);
    sequence.end = end;
    sequence.length = length;
  };
  bool found = false;
  for (Slot& slot : slots_) {
    if (slot.run != run) continue;
    found = true;
    // Emptied since by another run: what is left of it is parked.
    if (!slot.busy && slot.length == 0) continue;
    leave(slot);
    slot.use = slot.busy ? use : slot.use;
    slot.busy = false;
  }
  for (Sequence& parked : parked_) {
    if (parked.run != run) continue;
    found = true;
    leave(parked);
  }
  return found;
}

void SlotCache::Abandon(Run run, std::vector<Node*>& released) {
  for (Slot& slot : slots_) {
    if (slot.run != run || !slot.busy) continue;
    slot.busy = false;
    slot.length = 0;
    if (slot.end != nullptr) released.push_back(std::exchange(slot.end, nullptr));
  }
}

std::optional<SlotCache::Belief> SlotCache::BeliefOf(Run run) const {
  for (const Slot& slot : slots_) {
    if (slot.run == run) return slot.belief;
  }
  return std::nullopt;
}

void SlotCache::Park(const Sequence& sequence, std::vector<Node*>& released) {
  if (sequence.length == 0 || sequence.end == nullptr) return;
  for (const Sequence& parked : parked_) {
    if (CommonLength(parked, sequence) == sequence.length) return;  // it is there already
  }
  for (size_t i = parked_.size(); i > 0; --i) {
    if (CommonLength(parked_[i - 1], sequence) == parked_[i - 1].length) Unpark(i - 1, released);
  }
  while (!parked_.empty() && (parked_.size() >= kMaxParked ||
                              static_cast<double>(ParkedSymbols() + sequence.length) > fits_)) {
    Unpark(0, released);
  }
  Hold(sequence.end);
  parked_.push_back(sequence);
  parked_.back().serial = ++last_serial_;
}

void SlotCache::Unpark(size_t index, std::vector<Node*>& released) {
  released.push_back(parked_[index].end);
  parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(index));
}

size_t SlotCache::ParkedSymbols() const {
  size_t sum = 0;
  for (const Sequence& parked : parked_) sum += parked.length;
  return sum;
}

void SlotCache::Missed(uint64_t loaded, std::vector<Node*>& released) {
  if (loaded == 0) return;
  while (!parked_.empty() && parked_.front().serial <= loaded) Unpark(0, released);
  size_t longest = 1;
  for (const Slot& slot : slots_) longest = std::max(longest, slot.length);
  fits_ = static_cast<double>(std::max(ParkedSymbols(), longest));
}

void SlotCache::Confirmed() { fits_ *= kGrowth; }

void SlotCache::RemoveNode(const Node* leaf) {
  const auto move_up = [&](Sequence& sequence) {
    if (sequence.end != leaf) return;
    sequence.end = leaf->parent;
    Hold(leaf->parent);
  };
  for (Slot& slot : slots_) move_up(slot);
  for (Sequence& parked : parked_) move_up(parked);
}

int64_t SlotCache::bytes() const {
  int64_t sum = 0;
  if (slots_.capacity() > 0) sum += AllocatedBytes(slots_.capacity() * sizeof(Slot));
  if (parked_.capacity() > 0) sum += AllocatedBytes(parked_.capacity() * sizeof(Sequence));
  return sum;
}

}  // namespace parallax::router
