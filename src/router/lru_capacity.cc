#include "router/lru_capacity.h"

#include <algorithm>
#include <cmath>

namespace parallax::router {
namespace {

// No cache that anybody runs is smaller: a miss nearer than this has another reason.
constexpr double kLeastCapacity = 1024;
// Evidence moves a capacity by this share of the distance. Evidence contradicts itself where the
// model is not exact (shared prefixes counted once or several times), so it is averaged.
constexpr double kRate = 0.5;
constexpr double kErrorRate = 0.1;
constexpr double kFade = 0.99;

double Newer(const RecencyStack& stack, const RadixTree::Node* node) {
  return static_cast<double>(stack.NewerThan(node));
}

// Symbols used since the sequence that used `node` last, and that sequence itself.
double SequenceDistance(const RecencyStack& stack, const RadixTree::Node* node) {
  return Newer(stack, node) + node->length + node->tail;
}

// The node of the stored path that holds the symbol at `offset`.
const RadixTree::Node* Holding(const RadixTree::Node* node, size_t offset) {
  while (node->begin() > offset) node = node->parent;
  return node;
}

// Symbols used since the one at `offset` was, and itself.
double BlockDistance(const RecencyStack& stack, const RadixTree::Node* path, size_t offset) {
  const RadixTree::Node* node = Holding(path, offset);
  return Newer(stack, node) + static_cast<double>(offset + 1 - node->begin());
}

}  // namespace

LruCapacity::LruCapacity(double symbols) {
  if (symbols > 0) blocks_.capacity = sequences_.capacity = symbols;
}

int64_t LruCapacity::symbols() const {
  const double capacity = ByBlocks() ? blocks_.capacity : sequences_.capacity;
  return std::isfinite(capacity) ? std::llround(capacity) : 0;
}

// Ancestors are newer than descendants, and the start of a node outlives its end: walk up from the
// end until something fits.
size_t LruCapacity::HeldBlocks(const RecencyStack& stack, Stored stored, double capacity) {
  for (const RadixTree::Node* node = stored.node; node->parent != nullptr; node = node->parent) {
    const double room = capacity - Newer(stack, node);
    if (room < 1) continue;
    const size_t part = std::min<size_t>(stored.total, node->end) - node->begin();
    return node->begin() + (room >= static_cast<double>(part) ? part : static_cast<size_t>(room));
  }
  return 0;
}

size_t LruCapacity::HeldSequences(const RecencyStack& stack, Stored stored, double capacity) {
  for (const RadixTree::Node* node = stored.node; node->parent != nullptr; node = node->parent) {
    if (SequenceDistance(stack, node) <= capacity) {
      return std::min<size_t>(stored.total, node->end);
    }
  }
  return 0;
}

size_t LruCapacity::Held(const RecencyStack& stack, Stored stored) const {
  return ByBlocks() ? HeldBlocks(stack, stored, blocks_.capacity)
                    : HeldSequences(stack, stored, sequences_.capacity);
}

void LruCapacity::Kind::Raise(double at_least) {
  if (capacity < at_least) capacity += kRate * (at_least - capacity);
}

void LruCapacity::Kind::Lower(double at_most, double least) {
  at_most = std::max(at_most, least);
  if (capacity <= at_most) return;
  capacity = std::isfinite(capacity) ? capacity - kRate * (capacity - at_most) : at_most;
}

void LruCapacity::Processed(size_t length) {
  longest_ = std::max(longest_ * kFade, static_cast<double>(length));
}

bool LruCapacity::Learn(const RecencyStack& stack, Stored stored, size_t reported, size_t reusable,
                        size_t prompt, size_t granule) {
  if (reusable == 0 || stored.total == 0) return false;
  const size_t reused = std::min(reported, reusable);
  const auto judge = [&](Kind& kind, size_t held) {
    const double miss =
        std::abs(static_cast<double>(std::min(held, reusable)) - static_cast<double>(reused));
    kind.error += kErrorRate * (miss / static_cast<double>(prompt) - kind.error);
  };
  judge(blocks_, HeldBlocks(stack, stored, blocks_.capacity));
  judge(sequences_, HeldSequences(stack, stored, sequences_.capacity));

  if (reused > 0) {
    blocks_.Raise(BlockDistance(stack, stored.node, reused - 1));
    sequences_.Raise(SequenceDistance(stack, Holding(stored.node, reused - 1)));
  }
  if (reused == reusable) return false;
  const double least = std::max(kLeastCapacity, longest_);
  // The granule that is missing was there to its last symbol as long as that fitted.
  const size_t missing = std::min(reused + granule, stored.total) - 1;
  const double blocks = BlockDistance(stack, stored.node, missing);
  const double sequences = SequenceDistance(stack, Holding(stored.node, missing));
  if (blocks <= least && sequences <= least) return false;
  blocks_.Lower(blocks - 1, least);
  sequences_.Lower(sequences - 1, least);
  return true;
}

}  // namespace parallax::router
