// Element types of tensors, and dispatch from a run-time type to a C++ type.
//
// Role:       shared vocabulary of every room that touches tensor data.
// Threads:    pure.
// Example:
//   DispatchType(dtype, [&]<class T>() { Fill(static_cast<T*>(p), n); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/half.h"

namespace parallax {

enum class DType : uint8_t {
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
  kBool,
  kString,  // known by name only, so that errors can say "string"; no kernel takes it
};

// Bytes of one element; 0 for kUndefined and kString.
size_t SizeOf(DType dtype);
// "f32", "i64", "bool"...
std::string_view Name(DType dtype);
// Inverse of Name; kUndefined when unknown.
DType DTypeFromName(std::string_view name);

constexpr bool IsFloat(DType d) {
  return d == DType::kF32 || d == DType::kF64 || d == DType::kF16 || d == DType::kBF16;
}
constexpr bool IsInteger(DType d) { return d >= DType::kI8 && d <= DType::kU64; }

template <class T>
struct DTypeOfImpl;
template <>
struct DTypeOfImpl<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOfImpl<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOfImpl<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOfImpl<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOfImpl<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOfImpl<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOfImpl<int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOfImpl<uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOfImpl<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOfImpl<uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOfImpl<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOfImpl<uint64_t> {
  static constexpr DType value = DType::kU64;
};
template <>
struct DTypeOfImpl<bool> {
  static constexpr DType value = DType::kBool;
};
template <class T>
inline constexpr DType kDTypeOf = DTypeOfImpl<T>::value;

// Calls f.operator()<T>() for the C++ type of `dtype`; returns false (calls nothing) when it has
// none. Bool tensors hold one byte a value, 0 or 1.
template <class F>
bool DispatchType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      f.template operator()<float>();
      return true;
    case DType::kF64:
      f.template operator()<double>();
      return true;
    case DType::kF16:
      f.template operator()<F16>();
      return true;
    case DType::kBF16:
      f.template operator()<BF16>();
      return true;
    case DType::kI8:
      f.template operator()<int8_t>();
      return true;
    case DType::kU8:
      f.template operator()<uint8_t>();
      return true;
    case DType::kI16:
      f.template operator()<int16_t>();
      return true;
    case DType::kU16:
      f.template operator()<uint16_t>();
      return true;
    case DType::kI32:
      f.template operator()<int32_t>();
      return true;
    case DType::kU32:
      f.template operator()<uint32_t>();
      return true;
    case DType::kI64:
      f.template operator()<int64_t>();
      return true;
    case DType::kU64:
      f.template operator()<uint64_t>();
      return true;
    case DType::kBool:
      f.template operator()<bool>();
      return true;
    case DType::kUndefined:
    case DType::kString:
      return false;
  }
  return false;
}

}  // namespace parallax
