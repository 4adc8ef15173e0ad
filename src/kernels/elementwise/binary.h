// Binary elementwise functions with broadcasting: out[i] = f(a[...], b[...]).
//
// Role:       the arithmetic of ONNX's two-input operators; variadic Sum, Max, Min fold over it.
// Ownership:  borrows its pointers; out may be an operand of the output's own shape and element
//             size: each of its elements is read before that place is written. The other operand
//             must then not overlap it, unless it is the same operand.
// Threads:    splits over the caller's team.
// Cost:       one pass over memory; allocates nothing.
// Invariants: the same bits for every team size. Integers wrap; nothing traps.
// Example:
//   if (HasZero(DType::kI64, b, n_b)) return MakeError(...);
//   Binary(BinaryOp::kDiv, DType::kI64, plan, a, b, out, team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/elementwise/broadcast.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class BinaryOp : uint8_t {
  // Any number.
  kAdd,
  kSub,
  kMul,
  kDiv,   // integers truncate; x / 0 is 0, lowest / -1 is lowest
  kMod,   // sign of the divisor (ONNX fmod = 0, Python's %); integers: x mod 0 is 0
  kFmod,  // sign of the dividend (C's fmod and %); integers: x fmod 0 is 0
  kMin,   // NaN if either is (numpy.minimum)
  kMax,
  kPRelu,  // a < 0 ? a * b : a
  kPow,    // a and b of one type; see Pow for two
  // Any number or bool, to bool. False with NaN.
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  // Bool.
  kAnd,
  kOr,
  kXor,
  // Integers.
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  // Unsigned integers (signed ones are shifted as their bits); by the width or more: 0.
  kShiftLeft,
  kShiftRight,
};

// Whether `op` takes elements of type `dtype`; the output has the same type, bool for comparisons.
bool BinarySupports(BinaryOp op, DType dtype);

// REQUIRES: BinarySupports(op, dtype). f16 and bf16 compute in f32 and round once.
void Binary(BinaryOp op, DType dtype, const BroadcastPlan& plan, const void* a, const void* b,
            void* out, Team& team);

// out = a to the power b, in the type of a. `base` and `exponent` are any numeric types. Floats as
// C's pow; an integer base with an integer exponent is exact modulo the width, and a negative
// exponent truncates the exact quotient (2^-1 = 0; 0^-1 = 0); an integer base with a float exponent
// goes through f64 and Cast's rule.
void Pow(DType base, DType exponent, const BroadcastPlan& plan, const void* a, const void* b,
         void* out, Team& team);

// Whether any of n integers is zero (floats: always false), so that Div and Mod can report it.
bool HasZero(DType dtype, const void* values, int64_t n);

}  // namespace parallax::kernels
