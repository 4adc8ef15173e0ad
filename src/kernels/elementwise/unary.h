// Unary elementwise functions: out[i] = f(in[i]).
//
// Role:       the arithmetic of ONNX's one-input operators and of activations; f32 on SIMD.
// Ownership:  borrows its pointers; out may be in itself (exact alias) when both have elements of
//             one size.
// Threads:    splits over the caller's team; one call at a time per team.
// Cost:       one pass over memory; allocates nothing.
// Invariants: an element's result depends on that element alone: the same bits for every position,
//             length and team size. NaN in, NaN out, but for the predicates and for Shrink and
//             ThresholdedRelu (0). Error bounds of the f32 functions are stated in math-inl.h.
// Example:
//   Unary(UnaryOp::kLeakyRelu, DType::kF32, x, y, n, {.alpha = 0.01f}, team);
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "threads/team.h"

namespace parallax::kernels {

// `a` and `b` are UnaryParams::alpha and beta.
enum class UnaryOp : uint8_t {
  // Any number.
  kAbs,   // of the lowest signed integer: itself (two's complement)
  kNeg,   // as kAbs
  kSign,  // -1, 0, 1; of NaN: NaN
  kRelu,  // max(x, 0)
  kSquare,
  // Floats only.
  kFloor,
  kCeil,
  kRound,  // half to even
  kTrunc,
  kSqrt,        // of a negative: NaN
  kReciprocal,  // 1 / x, correctly rounded
  kExp,
  kLog,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kSigmoid,          // 1 / (1 + exp(-x))
  kSilu,             // x / (1 + exp(-a x)), ONNX Swish; a = 1 is SiLU
  kLeakyRelu,        // x < 0 ? a x : x
  kElu,              // x < 0 ? a (exp(x) - 1) : x
  kSelu,             // b * (x <= 0 ? a (exp(x) - 1) : x)
  kCelu,             // max(0, x) + min(0, a (exp(x / a) - 1))
  kAffine,           // a x + b, rounded once or twice
  kHardSigmoid,      // max(0, min(1, a x + b))
  kHardSwish,        // x max(0, min(1, x / 6 + 0.5))
  kHardSwishAffine,  // a times that + b
  kMish,             // x tanh(log(1 + exp(x)))
  kSoftplus,         // log(1 + exp(x))
  kSoftsign,         // x / (1 + |x|)
  kThresholdedRelu,  // x > a ? x : 0
  kShrink,           // x < -a ? x + b : x > a ? x - b : 0
  kGelu,             // x (1 + erf(x / sqrt 2)) / 2
  kGeluTanh,         // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  // Floats to bool.
  kIsNaN,
  kIsInf,  // a != 0: -inf counts; b != 0: +inf counts
  // Bool.
  kNot,
  // Integers.
  kBitwiseNot,
};

struct UnaryParams {
  float alpha = 0;
  float beta = 0;
};

// Whether `op` takes elements of type `dtype`; the output has the same type, bool for predicates.
bool UnarySupports(UnaryOp op, DType dtype);

// REQUIRES: UnarySupports(op, dtype); n >= 0. f16 and bf16 compute in f32 and round once.
void Unary(UnaryOp op, DType dtype, const void* in, void* out, int64_t n, const UnaryParams& params,
           Team& team);

// The same on the calling thread, for use inside a task (recurrent cells, fused loops).
void UnarySerial(UnaryOp op, DType dtype, const void* in, void* out, int64_t n,
                 const UnaryParams& params = {});

// out[i] = min(max(in[i], lo), hi): hi wins where lo > hi, NaN in `in` stays. `lo` and `hi` point
// to one element of type `dtype` each; null means unbounded. Any numeric type.
void Clip(DType dtype, const void* in, void* out, int64_t n, const void* lo, const void* hi,
          Team& team);

}  // namespace parallax::kernels
