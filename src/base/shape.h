// Shape: the extents of a tensor whose every dimension is known.
//
// Role:       the currency between ops, kernels and runtime; symbolic shapes live in ir.
// Ownership:  a plain value of fixed size: copying allocates nothing.
// Threads:    a value type.
// Invariants: rank <= kMaxRank; every extent >= 0; the element count fits int64.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/result.h"

namespace parallax {

inline constexpr int kMaxRank = 12;

class Shape {
 public:
  Shape() = default;  // a scalar: rank 0, one element
  // REQUIRES: dims.size() <= kMaxRank, every extent >= 0, product fits int64. For literals and
  // shapes derived from checked ones; use Make for outside data.
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    for (int i = 0; i < rank_; ++i) dims_[static_cast<size_t>(i)] = dims[static_cast<size_t>(i)];
  }
  // Checks rank, signs and the element count; the error names the shape.
  static Result<Shape> Make(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  int64_t elements() const { return Elements(0, rank_); }
  // Product of extents in [begin, end).
  int64_t Elements(int begin, int end) const {
    int64_t n = 1;
    for (int i = begin; i < end; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  void Append(int64_t extent) { dims_[static_cast<size_t>(rank_++)] = extent; }
  std::string ToString() const;  // "[1,3,224,224]"

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

}  // namespace parallax
