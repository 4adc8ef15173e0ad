// Conversion between element types.
//
// Role:       ONNX Cast and CastLike; f16 storage for kernels that compute in f32.
// Ownership:  borrows its pointers; they must not overlap unless equal with equal element sizes.
// Threads:    splits over the caller's team; the *Block functions run on the calling thread.
// Cost:       one pass over memory; f32 <-> f16 and bf16 on SIMD; allocates nothing.
// Invariants: floats round to nearest, ties to even, in one rounding (f64 to bf16: through f32).
//             To bool: x != 0, NaN is true. Integers to narrower ones keep the low bits.
//             Floats to integers truncate towards zero. Where that does not fit, ONNX says nothing
//             and the result here is what a C cast compiles to on x86-64, on every machine:
//             i32, i64: the lowest value, for NaN too; i8, u8, i16, u16: the low bits of the cast
//             to i32; u32: the low bits of the cast to i64; u64: negative values as the cast to
//             i64, NaN 2^63, 2^64 and above the highest value.
// Example:
//   Cast(DType::kI64, DType::kF32, in, out, n, team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

// Any pair of types but kString and kUndefined; equal types copy.
void Cast(DType from, DType to, const void* in, void* out, int64_t n, Team& team);
void CastSerial(DType from, DType to, const void* in, void* out, int64_t n);

// Bulk conversions, on SIMD. `dtype` is kF16, kBF16 or kF32 (a copy).
void ToF32Block(DType dtype, const void* in, float* out, int64_t n);
void FromF32Block(DType dtype, const float* in, void* out, int64_t n);

}  // namespace parallax::kernels
