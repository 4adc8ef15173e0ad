// Tensors as callers see them: a borrowed view for inputs, an owning handle for outputs.
//
// Role:       arguments and results of Session::Run.
// Ownership:  a TensorView borrows shape and data for the call. A Tensor shares its memory through
//             a reference count and outlives the session that made it.
// Threads:    reading is safe from any thread.
// Cost:       views are free; copying a Tensor copies a pointer.
// Invariants: data is dense, row-major, aligned for the element type; it holds the product of the
//             extents. A bool is one byte, 0 or 1; f16 and bf16 are 16-bit words.
// Example:
//   std::vector<float> pixels(3 * 224 * 224);
//   TensorView x = View<float>(pixels, std::array<int64_t, 4>{1, 3, 224, 224});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace parallax::api {

enum class ElementType : uint8_t {
  kUndefined,
  kF32,
  kF64,
  kF16,
  kBF16,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool
};
// "f32", "i64"...
std::string_view Name(ElementType type);
// Bytes of one element.
size_t SizeOf(ElementType type);

// The ElementType of a C++ type; f16 and bf16 have none (give TensorView::type yourself).
template <class T>
inline constexpr ElementType kElementTypeOf = ElementType::kUndefined;
template <>
inline constexpr ElementType kElementTypeOf<float> = ElementType::kF32;
template <>
inline constexpr ElementType kElementTypeOf<double> = ElementType::kF64;
template <>
inline constexpr ElementType kElementTypeOf<int8_t> = ElementType::kI8;
template <>
inline constexpr ElementType kElementTypeOf<uint8_t> = ElementType::kU8;
template <>
inline constexpr ElementType kElementTypeOf<int16_t> = ElementType::kI16;
template <>
inline constexpr ElementType kElementTypeOf<uint16_t> = ElementType::kU16;
template <>
inline constexpr ElementType kElementTypeOf<int32_t> = ElementType::kI32;
template <>
inline constexpr ElementType kElementTypeOf<uint32_t> = ElementType::kU32;
template <>
inline constexpr ElementType kElementTypeOf<int64_t> = ElementType::kI64;
template <>
inline constexpr ElementType kElementTypeOf<uint64_t> = ElementType::kU64;
template <>
inline constexpr ElementType kElementTypeOf<bool> = ElementType::kBool;

struct TensorView {
  ElementType type = ElementType::kUndefined;
  std::span<const int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;  // of `data`; checked against type and shape
};

// A view of `values` under `shape`; both must outlive it.
template <class T>
TensorView View(std::span<const T> values, std::span<const int64_t> shape) {
  static_assert(kElementTypeOf<T> != ElementType::kUndefined);
  return {kElementTypeOf<T>, shape, values.data(), values.size_bytes()};
}

class Tensor {
 public:
  Tensor() = default;

  ElementType type() const { return type_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t elements() const;
  const void* data() const { return data_.get(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * SizeOf(type_); }
  // The elements, or an empty span when T is not the tensor's type.
  template <class T>
  std::span<const T> values() const {
    if (kElementTypeOf<T> != type_) return {};
    return {static_cast<const T*>(data_.get()), static_cast<size_t>(elements())};
  }
  // Borrows this tensor: to feed an output back as an input.
  TensorView view() const { return {type_, shape_, data_.get(), bytes()}; }

 private:
  friend class Session;
  ElementType type_ = ElementType::kUndefined;
  std::vector<int64_t> shape_;
  std::shared_ptr<const void> data_;
};

}  // namespace parallax::api
