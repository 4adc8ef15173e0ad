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

SlotCache::Choice SlotCache::Choose(const RadixTree::Position& at, size_t prompt) const {
  Choice best;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const size_t common = router::CommonLength(at, slots_[i].end);
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
    const auto oldest =
        std::min_element(slots_.begin(), slots_.end(),
                         [](const Sequence& a, const Sequence& b) { return a.use < b.use; });
    best.slot = static_cast<size_t>(oldest - slots_.begin());
    best.common = router::CommonLength(at, oldest->end);
    best.replaces = true;
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

void SlotCache::Processed(const Choice& choice, Node* end, size_t length, uint64_t use,
                          std::vector<Node*>& released) {
  if (choice.slot == slots_.size()) slots_.push_back({});
  if (choice.parked != kNone) Unpark(choice.parked, released);
  if (choice.replaces) Park(slots_[choice.slot], released);
  Hold(end);
  if (slots_[choice.slot].end != nullptr) released.push_back(slots_[choice.slot].end);
  slots_[choice.slot] = {end, length, use};

  if (!rules_.parks_idle) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (i == choice.slot || slots_[i].length == 0) continue;
    Park(slots_[i], released);
    if (!rules_.clears_idle) continue;
    released.push_back(std::exchange(slots_[i].end, nullptr));
    slots_[i].length = 0;
  }
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

void SlotCache::Missed(const Choice& choice, std::vector<Node*>& released) {
  if (choice.parked == kNone) return;
  for (size_t i = choice.parked + 1; i > 0; --i) Unpark(i - 1, released);
  size_t longest = 1;
  for (const Sequence& slot : slots_) longest = std::max(longest, slot.length);
  fits_ = static_cast<double>(std::max(ParkedSymbols(), longest));
}

void SlotCache::Confirmed() { fits_ *= kGrowth; }

void SlotCache::RemoveNode(const Node* leaf) {
  for (std::vector<Sequence>* list : {&slots_, &parked_}) {
    for (Sequence& sequence : *list) {
      if (sequence.end != leaf) continue;
      sequence.end = leaf->parent;
      Hold(leaf->parent);
    }
  }
}

int64_t SlotCache::bytes() const {
  int64_t sum = 0;
  for (const std::vector<Sequence>* list : {&slots_, &parked_}) {
    if (list->capacity() > 0) sum += AllocatedBytes(list->capacity() * sizeof(Sequence));
  }
  return sum;
}

}  // namespace parallax::router
