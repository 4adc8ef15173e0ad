#include "base/dtype.h"

#include <array>

namespace parallax {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  size_t size;
};
constexpr std::array<Entry, 15> kEntries = {{{DType::kUndefined, "undefined", 0},
                                             {DType::kF32, "f32", 4},
                                             {DType::kF64, "f64", 8},
                                             {DType::kF16, "f16", 2},
                                             {DType::kBF16, "bf16", 2},
                                             {DType::kI8, "i8", 1},
                                             {DType::kU8, "u8", 1},
                                             {DType::kI16, "i16", 2},
                                             {DType::kU16, "u16", 2},
                                             {DType::kI32, "i32", 4},
                                             {DType::kU32, "u32", 4},
                                             {DType::kI64, "i64", 8},
                                             {DType::kU64, "u64", 8},
                                             {DType::kBool, "bool", 1},
                                             {DType::kString, "string", 0}}};

// A number that is no type, as callers of the library may cast to one, is the undefined type.
const Entry& Find(DType dtype) {
  const size_t i = static_cast<size_t>(dtype);
  return kEntries[i < kEntries.size() ? i : 0];
}

}  // namespace

size_t SizeOf(DType dtype) { return Find(dtype).size; }
std::string_view Name(DType dtype) { return Find(dtype).name; }
DType DTypeFromName(std::string_view name) {
  for (const Entry& e : kEntries) {
    if (e.name == name) return e.dtype;
  }
  return DType::kUndefined;
}

}  // namespace parallax
