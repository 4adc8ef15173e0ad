// Binary functions as plain loops: f64, integers, bool, and what f32 has no SIMD form for.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/binary_row.h"
#include "kernels/elementwise/unary_scalar.h"

namespace parallax::kernels {
namespace {

// Python's %: the sign of the divisor.
template <class T>
T FloorMod(T a, T b) {
  const T r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <class T>
T QuotientOf(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(Wrapping<T>(0) - static_cast<Wrapping<T>>(a));
  }
  return static_cast<T>(a / b);
}

template <class T>
T RemainderOf(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

template <class T>
T FloorModOf(T a, T b) {
  const T r = RemainderOf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}

template <class T>
T IntegerPower(T base, uint64_t exponent, bool negative) {
  using W = Wrapping<T>;
  if (negative) {  // 1 / base^|exponent|, truncated
    if (base == 1) return 1;
    if constexpr (std::is_signed_v<T>) {
      if (base == -1) return exponent % 2 == 0 ? T(1) : T(-1);
    }
    return 0;
  }
  W result = 1;
  W square = static_cast<W>(base);
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

template <class T>
BinaryRow FindFloatRow(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return RowOf<T, T, decltype([](T a, T b) { return a + b; })>;
    case BinaryOp::kSub:
      return RowOf<T, T, decltype([](T a, T b) { return a - b; })>;
    case BinaryOp::kMul:
      return RowOf<T, T, decltype([](T a, T b) { return a * b; })>;
    case BinaryOp::kDiv:
      return RowOf<T, T, decltype([](T a, T b) { return a / b; })>;
    case BinaryOp::kMod:
      return RowOf<T, T, decltype([](T a, T b) { return FloorMod(a, b); })>;
    case BinaryOp::kFmod:
      return RowOf<T, T, decltype([](T a, T b) { return std::fmod(a, b); })>;
    case BinaryOp::kMin:
      return RowOf<T, T, decltype([](T a, T b) { return a != a || a < b ? a : b; })>;
    case BinaryOp::kMax:
      return RowOf<T, T, decltype([](T a, T b) { return a != a || a > b ? a : b; })>;
    case BinaryOp::kPRelu:
      return RowOf<T, T, decltype([](T a, T b) { return a < 0 ? a * b : a; })>;
    default:
      return FindComparison<T>(op);
  }
}

template <class T>
BinaryRow FindTypedRow(BinaryOp op) {
  using W = Wrapping<T>;
  constexpr unsigned kBits = 8 * sizeof(T);
  switch (op) {
    case BinaryOp::kAdd:
      return RowOf<T, T, decltype([](T a, T b) { return static_cast<W>(a) + static_cast<W>(b); })>;
    case BinaryOp::kSub:
      return RowOf<T, T, decltype([](T a, T b) { return static_cast<W>(a) - static_cast<W>(b); })>;
    case BinaryOp::kMul:
      return RowOf<T, T, decltype([](T a, T b) { return static_cast<W>(a) * static_cast<W>(b); })>;
    case BinaryOp::kDiv:
      return RowOf<T, T, decltype([](T a, T b) { return QuotientOf(a, b); })>;
    case BinaryOp::kMod:
      return RowOf<T, T, decltype([](T a, T b) { return FloorModOf(a, b); })>;
    case BinaryOp::kFmod:
      return RowOf<T, T, decltype([](T a, T b) { return RemainderOf(a, b); })>;
    case BinaryOp::kMin:
      return RowOf<T, T, decltype([](T a, T b) { return a < b ? a : b; })>;
    case BinaryOp::kMax:
      return RowOf<T, T, decltype([](T a, T b) { return a > b ? a : b; })>;
    case BinaryOp::kPRelu:
      return RowOf<T, T, decltype([](T a, T b) {
                     return a < 0 ? static_cast<W>(a) * static_cast<W>(b) : static_cast<W>(a);
                   })>;
    case BinaryOp::kBitwiseAnd:
      return RowOf<T, T, decltype([](T a, T b) { return a & b; })>;
    case BinaryOp::kBitwiseOr:
      return RowOf<T, T, decltype([](T a, T b) { return a | b; })>;
    case BinaryOp::kBitwiseXor:
      return RowOf<T, T, decltype([](T a, T b) { return a ^ b; })>;
    case BinaryOp::kShiftLeft:
      return RowOf<T, T, decltype([](T a, T b) {
                     using U = std::make_unsigned_t<T>;
                     const U by = static_cast<U>(b);
                     return by >= kBits ? W(0) : static_cast<W>(static_cast<U>(a)) << by;
                   })>;
    case BinaryOp::kShiftRight:
      return RowOf<T, T, decltype([](T a, T b) {
                     using U = std::make_unsigned_t<T>;
                     const U by = static_cast<U>(b);
                     return by >= kBits ? W(0) : static_cast<W>(static_cast<U>(a)) >> by;
                   })>;
    default:
      return FindComparison<T>(op);
  }
}

}  // namespace

BinaryRow FindF32Row(BinaryOp op) {
  const BinaryRow simd = FindF32SimdRow(op);
  return simd != nullptr ? simd : FindFloatRow<float>(op);
}

BinaryRow FindF64Row(BinaryOp op) { return FindFloatRow<double>(op); }

BinaryRow FindIntegerRow(BinaryOp op, DType dtype) {
  BinaryRow row = nullptr;
  DispatchType(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) row = FindTypedRow<T>(op);
  });
  return row;
}

BinaryRow FindBoolRow(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAnd:
      return RowOf<bool, bool, decltype([](bool a, bool b) { return a & b; })>;
    case BinaryOp::kOr:
      return RowOf<bool, bool, decltype([](bool a, bool b) { return a | b; })>;
    case BinaryOp::kXor:
      return RowOf<bool, bool, decltype([](bool a, bool b) { return a != b; })>;
    default:
      return FindComparison<bool>(op);
  }
}

void PowRowInteger(DType dtype, const void* a, bool step_a, const int64_t* b, bool step_b,
                   bool unsigned_b, void* out, int64_t n) {
  DispatchType(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T* x = static_cast<const T*>(a);
      T* z = static_cast<T*>(out);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t e = b[step_b ? i : 0];
        z[i] = IntegerPower(x[step_a ? i : 0], static_cast<uint64_t>(e), !unsigned_b && e < 0);
      }
    }
  });
}

}  // namespace parallax::kernels
