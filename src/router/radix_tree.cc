#include "router/radix_tree.h"

#include <algorithm>
#include <cstring>

namespace parallax::router {
namespace {

constexpr size_t kLeastSlots = 16;

int64_t LabelBytes(size_t length) { return AllocatedBytes(length * sizeof(Symbol)); }

std::unique_ptr<Symbol[]> CopyLabel(SymbolSpan symbols) {
  std::unique_ptr<Symbol[]> label(new Symbol[symbols.size()]);
  std::memcpy(label.get(), symbols.data(), symbols.size_bytes());
  return label;
}

}  // namespace

RadixTree::RadixTree() : root_(std::make_unique<Node>()), table_(kLeastSlots) {
  node_bytes_ = AllocatedBytes(sizeof(Node));
}

RadixTree::~RadixTree() {
  for (Node* node : table_) delete node;
}

int64_t RadixTree::bytes() const {
  return node_bytes_ + AllocatedBytes(table_.capacity() * sizeof(Node*));
}

size_t RadixTree::Home(const Node* parent, Symbol first) const {
  uint64_t h = reinterpret_cast<uintptr_t>(parent) / 16 * 0x9e3779b97f4a7c15ull;
  h = (h ^ first) * 0xbf58476d1ce4e5b9ull;
  return static_cast<size_t>(h >> 32) & (table_.size() - 1);
}

RadixTree::Node* RadixTree::Child(const Node* parent, Symbol first) const {
  for (size_t at = Home(parent, first);; at = (at + 1) & (table_.size() - 1)) {
    Node* node = table_[at];
    if (node == nullptr || (node->parent == parent && node->label[0] == first)) return node;
  }
}

void RadixTree::Place(Node* node) {
  size_t at = Home(node->parent, node->label[0]);
  while (table_[at] != nullptr) at = (at + 1) & (table_.size() - 1);
  table_[at] = node;
}

size_t RadixTree::Slot(const Node* node) const {
  size_t at = Home(node->parent, node->label[0]);
  while (table_[at] != node) at = (at + 1) & (table_.size() - 1);
  return at;
}

void RadixTree::Rehash(size_t slots) {
  std::vector<Node*> old(slots);
  old.swap(table_);
  for (Node* node : old) {
    if (node != nullptr) Place(node);
  }
}

RadixTree::Position RadixTree::Find(SymbolSpan symbols) const {
  Position at{root_.get(), 0, root_.get(), 0};
  bool believed = true;
  while (at.total < symbols.size()) {
    Node* child = Child(at.node, symbols[at.total]);
    if (child == nullptr) break;
    const size_t shared = CommonPrefix(symbols.subspan(at.total), child->symbols());
    at.node = child;
    at.total += shared;
    believed = believed && !child->doubted;
    if (believed) {
      at.believed_node = child;
      at.believed = at.total;
    }
    if (shared < child->length) break;
  }
  return at;
}

RadixTree::Node* RadixTree::Extend(Node* parent, SymbolSpan symbols) {
  if (static_cast<size_t>(count_ + 1) * 4 > table_.size() * 3) Rehash(table_.size() * 2);
  Node* node = new Node;
  node->parent = parent;
  node->label = CopyLabel(symbols);
  node->length = static_cast<uint32_t>(symbols.size());
  node->end = parent->end + node->length;
  Place(node);
  ++count_;
  if (parent->children++ > 0 || parent == root_.get()) ++leaves_;
  symbols_ += node->length;
  node_bytes_ += AllocatedBytes(sizeof(Node)) + LabelBytes(node->length);
  return node;
}

RadixTree::Node* RadixTree::Split(Node* node, uint32_t keep) {
  if (static_cast<size_t>(count_ + 1) * 4 > table_.size() * 3) Rehash(table_.size() * 2);
  Node* upper = new Node;
  upper->parent = node->parent;
  upper->label = CopyLabel(node->symbols().first(keep));
  upper->length = keep;
  upper->end = node->begin() + keep;
  upper->children = 1;
  upper->use = node->use;
  upper->tail = node->tail + node->length - keep;
  upper->doubted = node->doubted;
  upper->generated = node->generated;

  table_[Slot(node)] = upper;  // the same parent and first symbol
  node_bytes_ -= LabelBytes(node->length);
  node->label = CopyLabel(node->symbols().subspan(keep));
  node->length -= keep;
  node->parent = upper;
  Place(node);
  ++count_;
  node_bytes_ +=
      AllocatedBytes(sizeof(Node)) + LabelBytes(upper->length) + LabelBytes(node->length);
  return upper;
}

RadixTree::Node* RadixTree::RemoveLeaf(Node* node) {
  // Close the gap: move back whatever probing would no longer reach.
  const size_t mask = table_.size() - 1;
  size_t gap = Slot(node);
  for (size_t at = (gap + 1) & mask; table_[at] != nullptr; at = (at + 1) & mask) {
    const size_t home = Home(table_[at]->parent, table_[at]->label[0]);
    if (((at - home) & mask) >= ((at - gap) & mask)) {
      table_[gap] = table_[at];
      gap = at;
    }
  }
  table_[gap] = nullptr;

  Node* parent = node->parent;
  --count_;
  if (--parent->children > 0 || parent == root_.get()) --leaves_;
  symbols_ -= node->length;
  node_bytes_ -= AllocatedBytes(sizeof(Node)) + LabelBytes(node->length);
  delete node;
  if (table_.size() > kLeastSlots && static_cast<size_t>(count_) * 8 < table_.size()) {
    Rehash(table_.size() / 2);
  }
  return parent;
}

}  // namespace parallax::router
