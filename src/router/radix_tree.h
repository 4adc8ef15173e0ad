// RadixTree: sequences of symbols with shared prefixes stored once.
//
// Role:       storage of one backend's shadow in PrefixIndex, which decides what stays.
// Ownership:  owns its nodes and their labels; a Node* is valid until that node is removed.
// Threads:    const calls may run at once.
// Cost:       Find O(length) at memcmp speed plus one table probe a node. Extend, Split and
//             RemoveLeaf: one or two allocations and the copy of a label.
// Invariants: no label is empty but the root's; children of a node start with different symbols;
//             no label holds kUnknownSymbol. A node may have a single child (a place where a
//             sequence ended), so the tree is not the smallest possible one. bytes() is exact.
// Example:
//   RadixTree tree;
//   RadixTree::Position at = tree.Find(symbols);      // how far it is stored
//   Node* end = at.total == symbols.size() ? at.node : tree.Extend(at.node,
//   symbols.subspan(at.total));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "router/symbols.h"

namespace parallax::router {

// Bytes that the C library takes for an allocation of `size`: header, 16-byte granules, 32 at
// least.
constexpr int64_t AllocatedBytes(size_t size) {
  const size_t chunk = (size + 8 + 15) / 16 * 16;
  return static_cast<int64_t>(chunk < 32 ? 32 : chunk);
}

class RadixTree {
 public:
  struct Node {
    Node* parent = nullptr;
    std::unique_ptr<Symbol[]> label;
    uint32_t length = 0;  // of the label
    uint32_t end = 0;     // symbols from the root to the label's end
    uint32_t children = 0;

    // For PrefixIndex and RecencyStack.
    Node* newer = nullptr;
    Node* older = nullptr;
    uint64_t use = 0;        // when last used, over all backends
    uint32_t stamp = 0;      // place in its backend's RecencyStack
    uint32_t tail = 0;       // symbols after this node in the sequence that used it last
    uint32_t holders = 0;    // slots whose sequence ends here
    bool doubted = false;    // believed only once a report confirms it
    bool generated = false;  // an answer's text, tokenized: it may have been other tokens

    SymbolSpan symbols() const { return {label.get(), length}; }
    uint32_t begin() const { return end - length; }
  };

  struct Position {
    Node* node = nullptr;           // the deepest node that shares at least one symbol, or the root
    size_t total = 0;               // symbols shared, at most node->end
    Node* believed_node = nullptr;  // the same before the first doubted node
    size_t believed = 0;
  };

  RadixTree();
  ~RadixTree();
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  Node* root() const { return root_.get(); }
  // How far `symbols`, which holds no kUnknownSymbol up to there, is stored.
  Position Find(SymbolSpan symbols) const;

  // A new leaf under `parent`. `symbols` is not empty, and no child starts with its first symbol.
  Node* Extend(Node* parent, SymbolSpan symbols);
  // Cuts a node's label after `keep` symbols (0 < keep < length); the node keeps the rest, and the
  // returned new node, its parent, takes the start, with the same use, doubt and origin, in no list
  // yet.
  Node* Split(Node* node, uint32_t keep);
  // Removes a node without children (not the root) and returns its parent.
  Node* RemoveLeaf(Node* node);

  int64_t bytes() const;
  int64_t nodes() const { return count_; }    // without the root
  int64_t leaves() const { return leaves_; }  // without the root
  int64_t symbols() const { return symbols_; }

 private:
  Node* Child(const Node* parent, Symbol first) const;
  size_t Home(const Node* parent, Symbol first) const;
  void Place(Node* node);
  size_t Slot(const Node* node) const;
  void Rehash(size_t slots);

  std::unique_ptr<Node> root_;
  // Every node but the root, hashed by (parent, first symbol); open addressing, at most 3/4 full.
  std::vector<Node*> table_;
  int64_t count_ = 0;
  int64_t leaves_ = 0;
  int64_t symbols_ = 0;
  int64_t node_bytes_ = 0;  // nodes and labels
};

}  // namespace parallax::router
