// Attributes: the named constants of a node.
//
// Role:       filled by the importer, read by ops.
// Ownership:  owns its values; tensors share their blocks.
// Threads:    read-only after import.
// Cost:       linear search: a node has a handful.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/tensor.h"

namespace parallax {

enum class AttributeType : uint8_t {
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kStrings,
  kTensor,
  kGraph
};
std::string_view Name(AttributeType type);

class Attributes {
 public:
  // The alternatives are in the order of AttributeType; a graph attribute is not kept here but in
  // Node::subgraphs.
  using Value = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                             std::vector<std::string>, Tensor>;

  struct Entry {
    std::string name;
    Value value;
    AttributeType type() const { return static_cast<AttributeType>(value.index()); }
  };

  void Set(std::string name, Value value);
  const Entry* Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  const std::vector<Entry>& entries() const { return entries_; }

  // The value of that name and type, or `fallback` / null when absent or of another type (the
  // schema check has refused wrong types before).
  int64_t Int(std::string_view name, int64_t fallback) const;
  float Float(std::string_view name, float fallback) const;
  std::string_view String(std::string_view name, std::string_view fallback) const;
  const std::vector<int64_t>* Ints(std::string_view name) const;
  const std::vector<float>* Floats(std::string_view name) const;
  const std::vector<std::string>* Strings(std::string_view name) const;
  const Tensor* TensorValue(std::string_view name) const;

 private:
  template <class T>
  const T* Get(std::string_view name) const {
    const Entry* e = Find(name);
    return e == nullptr ? nullptr : std::get_if<T>(&e->value);
  }
  std::vector<Entry> entries_;
};

}  // namespace parallax
