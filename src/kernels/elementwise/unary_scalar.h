// Unary functions of single values: every float function through the C library, and integers.
//
// Role:       f64, and the f32 functions that have no SIMD form (unary_f32.h).
// Threads:    pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/elementwise/unary.h"

namespace parallax::kernels {

// Two's complement arithmetic without undefined overflow; unsigned, at least 32 bits, so that
// promotion to int cannot overflow either.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

template <class T>
T ElementSigmoid(T x) {
  const T z = std::exp(-std::abs(x));
  return (x < 0 ? z : T(1)) / (1 + z);
}
template <class T>
T ElementSoftplus(T x) {
  return (x < 0 ? T(0) : x) + std::log1p(std::exp(-std::abs(x)));
}
template <class T>
T ElementClamp01(T x) {
  return x < 0 ? T(0) : x > 1 ? T(1) : x;
}

// T is float or double. False when `op` is not a function of floats to floats.
template <class T>
bool UnaryFloat(UnaryOp op, const T* in, T* out, int64_t n, T a, T b) {
  const auto map = [=](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(in[i]);
    return true;
  };
  switch (op) {
    case UnaryOp::kAbs:
      return map([](T x) { return std::abs(x); });
    case UnaryOp::kNeg:
      return map([](T x) { return -x; });
    case UnaryOp::kSign:
      return map([](T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x + T(0); });
    case UnaryOp::kRelu:
      return map([](T x) { return x < 0 ? T(0) : x; });
    case UnaryOp::kSquare:
      return map([](T x) { return x * x; });
    case UnaryOp::kFloor:
      return map([](T x) { return std::floor(x); });
    case UnaryOp::kCeil:
      return map([](T x) { return std::ceil(x); });
    case UnaryOp::kRound:
      return map([](T x) { return std::nearbyint(x); });
    case UnaryOp::kTrunc:
      return map([](T x) { return std::trunc(x); });
    case UnaryOp::kSqrt:
      return map([](T x) { return std::sqrt(x); });
    case UnaryOp::kReciprocal:
      return map([](T x) { return 1 / x; });
    case UnaryOp::kExp:
      return map([](T x) { return std::exp(x); });
    case UnaryOp::kLog:
      return map([](T x) { return std::log(x); });
    case UnaryOp::kSin:
      return map([](T x) { return std::sin(x); });
    case UnaryOp::kCos:
      return map([](T x) { return std::cos(x); });
    case UnaryOp::kTan:
      return map([](T x) { return std::tan(x); });
    case UnaryOp::kAsin:
      return map([](T x) { return std::asin(x); });
    case UnaryOp::kAcos:
      return map([](T x) { return std::acos(x); });
    case UnaryOp::kAtan:
      return map([](T x) { return std::atan(x); });
    case UnaryOp::kSinh:
      return map([](T x) { return std::sinh(x); });
    case UnaryOp::kCosh:
      return map([](T x) { return std::cosh(x); });
    case UnaryOp::kTanh:
      return map([](T x) { return std::tanh(x); });
    case UnaryOp::kAsinh:
      return map([](T x) { return std::asinh(x); });
    case UnaryOp::kAcosh:
      return map([](T x) { return std::acosh(x); });
    case UnaryOp::kAtanh:
      return map([](T x) { return std::atanh(x); });
    case UnaryOp::kErf:
      return map([](T x) { return std::erf(x); });
    case UnaryOp::kSigmoid:
      return map([](T x) { return ElementSigmoid(x); });
    case UnaryOp::kSilu:
      return map([a](T x) { return x * ElementSigmoid(a * x); });
    case UnaryOp::kLeakyRelu:
      return map([a](T x) { return x < 0 ? a * x : x; });
    case UnaryOp::kElu:
      return map([a](T x) { return x < 0 ? a * std::expm1(x) : x; });
    case UnaryOp::kSelu:
      return map([a, b](T x) { return b * (x <= 0 ? a * std::expm1(x) : x); });
    case UnaryOp::kCelu:
      return map([a](T x) {
        const T low = a * std::expm1(x / a);
        return (x < 0 ? T(0) : x) + (low > 0 ? T(0) : low);
      });
    case UnaryOp::kAffine:
      return map([a, b](T x) { return a * x + b; });
    case UnaryOp::kHardSigmoid:
      return map([a, b](T x) { return ElementClamp01(a * x + b); });
    case UnaryOp::kHardSwishAffine:
      return map([a, b](T x) { return a * (x * ElementClamp01(x / 6 + T(0.5))) + b; });
    case UnaryOp::kHardSwish:
      return map([](T x) { return x * ElementClamp01(x / 6 + T(0.5)); });
    case UnaryOp::kMish:
      return map([](T x) { return x * std::tanh(ElementSoftplus(x)); });
    case UnaryOp::kSoftplus:
      return map([](T x) { return ElementSoftplus(x); });
    case UnaryOp::kSoftsign:
      return map([](T x) { return x / (1 + std::abs(x)); });
    case UnaryOp::kThresholdedRelu:
      return map([a](T x) { return x > a ? x : T(0); });
    case UnaryOp::kShrink:
      return map([a, b](T x) { return x < -a ? x + b : x > a ? x - b : T(0); });
    case UnaryOp::kGelu:
      return map([](T x) { return x * T(0.5) * std::erfc(x * T(-0.70710678118654752)); });
    case UnaryOp::kGeluTanh:
      return map([](T x) {
        const T u = T(0.79788456080286536) * (x + T(0.044715) * x * x * x);
        return x * T(0.5) * (1 + std::tanh(u));
      });
    default:
      return false;
  }
}

// T is an integer type. False when `op` is not a function of integers.
template <class T>
bool UnaryInteger(UnaryOp op, const T* in, T* out, int64_t n) {
  using W = Wrapping<T>;
  const auto map = [=](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(f(in[i]));
    return true;
  };
  switch (op) {
    case UnaryOp::kAbs:
      return map([](T x) {
        if constexpr (std::is_signed_v<T>) {
          return x < 0 ? W(0) - static_cast<W>(x) : static_cast<W>(x);
        } else {
          return x;
        }
      });
    case UnaryOp::kNeg:
      return map([](T x) { return W(0) - static_cast<W>(x); });
    case UnaryOp::kSign:
      return map([](T x) { return (x > 0) - (x < 0); });
    case UnaryOp::kRelu:
      return map([](T x) { return x < 0 ? T(0) : x; });
    case UnaryOp::kSquare:
      return map([](T x) { return static_cast<W>(x) * static_cast<W>(x); });
    case UnaryOp::kBitwiseNot:
      return map([](T x) { return ~x; });
    default:
      return false;
  }
}

}  // namespace parallax::kernels
