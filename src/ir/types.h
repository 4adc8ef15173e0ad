// TensorType: element type and symbolic shape of a value, as far as known before running.
//
// Role:       what shape inference computes and plans are made from.
// Threads:    value types.
// Invariants: a Dim is known (extent >= 0), or a named symbol of the model, or anonymous.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace parallax {

// A symbolic dimension's number in the model's SymbolTable; 0 is "unknown, no name".
using SymbolId = int32_t;

struct Dim {
  int64_t extent = -1;  // -1: not known
  SymbolId symbol = 0;  // meaningful only while extent is -1

  Dim() = default;
  Dim(int64_t e) : extent(e) {}  // NOLINT: implicit, dims are mostly numbers
  static Dim Symbol(SymbolId id) {
    Dim d;
    d.symbol = id;
    return d;
  }
  bool known() const { return extent >= 0; }
  // Certainly equal: both known and equal, or the same named symbol.
  friend bool operator==(const Dim& a, const Dim& b) {
    if (a.known() || b.known()) return a.extent == b.extent;
    return a.symbol != 0 && a.symbol == b.symbol;
  }
};

using Dims = std::vector<Dim>;

struct TensorType {
  DType dtype = DType::kUndefined;
  bool ranked = false;
  Dims dims;  // empty unless ranked

  int rank() const { return ranked ? static_cast<int>(dims.size()) : -1; }
  bool is_static() const;
  // The shape, if every dimension is known.
  std::optional<Shape> shape() const;

  static TensorType Of(DType dtype, const Shape& shape);
  static TensorType Ranked(DType dtype, Dims dims) {
    return TensorType{dtype, true, std::move(dims)};
  }
};

// Names of the symbolic dimensions of one model.
class SymbolTable {
 public:
  SymbolId Intern(std::string_view name);
  // The name, or "?" for 0.
  std::string_view NameOf(SymbolId id) const;
  SymbolId size() const { return static_cast<SymbolId>(names_.size()); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, SymbolId> ids_;
};

// "f32[batch,3,?,224]", "i64[]", "f32[...]" when the rank is not known.
std::string ToString(const TensorType& type, const SymbolTable& symbols);

}  // namespace parallax
