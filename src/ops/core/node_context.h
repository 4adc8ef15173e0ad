// NodeContext: read access to a node's attributes, shared by inference, cost and binding.
//
// Role:       base of InferContext, CostContext and BindContext.
// Ownership:  borrows the node.
// Threads:    used by one thread.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace parallax::ops {

class NodeContext {
 public:
  explicit NodeContext(const Node& node) : node_(node) {}

  const Node& node() const { return node_; }
  int opset() const { return node_.opset; }
  int num_inputs() const { return node_.explicit_inputs; }
  int num_outputs() const { return static_cast<int>(node_.outputs.size()); }
  // Optional parameters may be left out at the end or by an empty name.
  bool has_input(int i) const {
    return i < num_inputs() && node_.inputs[static_cast<size_t>(i)] != kNoValue;
  }
  bool has_output(int i) const {
    return i < num_outputs() && node_.outputs[static_cast<size_t>(i)] != kNoValue;
  }

  int64_t Int(std::string_view name, int64_t fallback) const {
    return node_.attributes.Int(name, fallback);
  }
  float Float(std::string_view name, float fallback) const {
    return node_.attributes.Float(name, fallback);
  }
  std::string_view String(std::string_view name, std::string_view fallback = "") const {
    return node_.attributes.String(name, fallback);
  }
  const std::vector<int64_t>* Ints(std::string_view name) const {
    return node_.attributes.Ints(name);
  }
  // A list attribute, or `count` copies of `fallback` when it is absent.
  std::vector<int64_t> IntsOr(std::string_view name, size_t count, int64_t fallback) const {
    const std::vector<int64_t>* v = Ints(name);
    return v == nullptr ? std::vector<int64_t>(count, fallback) : *v;
  }
  bool has_attribute(std::string_view name) const { return node_.attributes.Has(name); }

 private:
  const Node& node_;
};

// An error about the model, from inside infer or bind; the caller puts the node's name before it.
template <class... Args>
Error Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorCode::kInvalidModel, fmt::format(format, std::forward<Args>(args)...));
}

// `axis` in [-rank, rank) as [0, rank).
Result<int> NormalizeAxis(int64_t axis, int rank);
// Several axes, normalised, sorted; repeated ones are an error.
Result<std::vector<int>> NormalizeAxes(const std::vector<int64_t>& axes, int rank);

}  // namespace parallax::ops
