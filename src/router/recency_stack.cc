#include "router/recency_stack.h"

#include <algorithm>

namespace parallax::router {

void RecencyStack::Add(uint32_t stamp, int64_t symbols) {
  for (size_t i = stamp; i < sums_.size(); i += i & (~i + 1)) sums_[i] += symbols;
}

int64_t RecencyStack::Prefix(uint32_t stamp) const {
  int64_t sum = 0;
  for (size_t i = stamp; i > 0; i -= i & (~i + 1)) sum += sums_[i];
  return sum;
}

int64_t RecencyStack::bytes() const {
  return sums_.capacity() == 0 ? 0 : AllocatedBytes(sums_.capacity() * sizeof(int64_t));
}

void RecencyStack::Unlink(Node* node) {
  (node->newer != nullptr ? node->newer->older : newest_) = node->older;
  (node->older != nullptr ? node->older->newer : oldest_) = node->newer;
  node->newer = node->older = nullptr;
}

// Stamps 1, 2, ... from the oldest on, and room for as many uses again before the next time.
void RecencyStack::Renumber() {
  const size_t room = std::max<size_t>(64, static_cast<size_t>(count_) * 2 + 2);
  std::vector<int64_t>(room).swap(sums_);
  next_stamp_ = 1;
  for (Node* node = oldest_; node != nullptr; node = node->newer) {
    node->stamp = next_stamp_++;
    sums_[node->stamp] = node->length;
  }
  for (size_t i = 1; i < sums_.size(); ++i) {
    const size_t up = i + (i & (~i + 1));
    if (up < sums_.size()) sums_[up] += sums_[i];
  }
}

void RecencyStack::Use(Node* node) {
  if (node->stamp != 0) {
    Add(node->stamp, -static_cast<int64_t>(node->length));
    Unlink(node);
  } else {
    ++count_;
    total_ += node->length;
  }
  if (next_stamp_ >= sums_.size()) Renumber();  // without `node`, which is not linked now
  node->older = newest_;
  (newest_ != nullptr ? newest_->newer : oldest_) = node;
  newest_ = node;
  node->stamp = next_stamp_++;
  Add(node->stamp, node->length);
}

void RecencyStack::Remove(Node* node) {
  Add(node->stamp, -static_cast<int64_t>(node->length));
  Unlink(node);
  node->stamp = 0;
  --count_;
  total_ -= node->length;
}

void RecencyStack::Resized(const Node* node, uint32_t before) {
  const int64_t change = static_cast<int64_t>(node->length) - before;
  Add(node->stamp, change);
  total_ += change;
}

}  // namespace parallax::router
