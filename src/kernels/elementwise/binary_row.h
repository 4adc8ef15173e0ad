// One row of a binary function: the innermost run of a broadcast, where each operand either steps
// or repeats one value.
//
// Role:       binary.cc finds a row once and calls it for every run of its plan.
// Threads:    pure.
#pragma once

#include <cstdint>

#include "kernels/elementwise/binary.h"

namespace parallax::kernels {

// out[i] = f(a[step_a ? i : 0], b[step_b ? i : 0]) for i in [0, n); out may be a or b where that
// one steps.
using BinaryRow = void (*)(const void* a, bool step_a, const void* b, bool step_b, void* out,
                           int64_t n);

// Null when there is none. f32 arithmetic is on SIMD (binary_f32.cc), the rest plain loops.
BinaryRow FindF32Row(BinaryOp op);
BinaryRow FindF64Row(BinaryOp op);
BinaryRow FindIntegerRow(BinaryOp op, DType dtype);
BinaryRow FindBoolRow(BinaryOp op);

// SIMD arithmetic of f32: add, sub, mul, div, min, max, prelu; null for other operators.
BinaryRow FindF32SimdRow(BinaryOp op);

// out[i] = a[i] to the power b[i], an integer base of type `dtype`; unsigned_b: b holds uint64
// bits.
void PowRowInteger(DType dtype, const void* a, bool step_a, const int64_t* b, bool step_b,
                   bool unsigned_b, void* out, int64_t n);

// The loop itself, for a function of two values.
template <class T, class Out, class F>
void ApplyRow(const void* a, bool step_a, const void* b, bool step_b, void* out, int64_t n, F f) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  Out* z = static_cast<Out*>(out);
  if (step_a && step_b) {
    for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Out>(f(x[i], y[i]));
  } else if (step_a) {
    const T value = *y;
    for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Out>(f(x[i], value));
  } else if (step_b) {
    const T value = *x;
    for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Out>(f(value, y[i]));
  } else if (n > 0) {
    const Out value = static_cast<Out>(f(*x, *y));
    for (int64_t i = 0; i < n; ++i) z[i] = value;
  }
}

// A BinaryRow from a stateless function object type.
template <class T, class Out, class F>
void RowOf(const void* a, bool step_a, const void* b, bool step_b, void* out, int64_t n) {
  ApplyRow<T, Out>(a, step_a, b, step_b, out, n, F());
}

// Comparisons, the same for every type.
template <class T>
BinaryRow FindComparison(BinaryOp op) {
  switch (op) {
    case BinaryOp::kEqual:
      return RowOf<T, bool, decltype([](T a, T b) { return a == b; })>;
    case BinaryOp::kLess:
      return RowOf<T, bool, decltype([](T a, T b) { return a < b; })>;
    case BinaryOp::kLessOrEqual:
      return RowOf<T, bool, decltype([](T a, T b) { return a <= b; })>;
    case BinaryOp::kGreater:
      return RowOf<T, bool, decltype([](T a, T b) { return a > b; })>;
    case BinaryOp::kGreaterOrEqual:
      return RowOf<T, bool, decltype([](T a, T b) { return a >= b; })>;
    default:
      return nullptr;
  }
}

}  // namespace parallax::kernels
