// Activations of recurrent cells, by value, with ONNX's parameters.
//
// Role:       gates of LSTM (and its relatives).
// Threads:    pure.
// Source:     ONNX operator specification, LSTM: equations of the activation functions.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/elementwise/unary.h"

namespace parallax::kernels {

enum class CellActivation : uint8_t {
  kRelu,  // max(0, x)
  kTanh,
  kSigmoid,
  kAffine,           // alpha x + beta
  kLeakyRelu,        // x >= 0 ? x : alpha x
  kThresholdedRelu,  // x >= alpha ? x : 0
  kScaledTanh,       // alpha tanh(beta x)
  kHardSigmoid,      // min(max(alpha x + beta, 0), 1)
  kElu,              // x >= 0 ? x : alpha (e^x - 1)
  kSoftsign,
  kSoftplus,
};

struct CellFunction {
  CellActivation kind = CellActivation::kSigmoid;
  float alpha = 0;
  float beta = 0;
};

template <class T>
T Apply(const CellFunction& f, T x) {
  const T alpha = static_cast<T>(f.alpha), beta = static_cast<T>(f.beta);
  switch (f.kind) {
    case CellActivation::kRelu:
      return x > 0 ? x : T(0);
    case CellActivation::kTanh:
      return std::tanh(x);
    case CellActivation::kSigmoid:
      return T(1) / (T(1) + std::exp(-x));
    case CellActivation::kAffine:
      return alpha * x + beta;
    case CellActivation::kLeakyRelu:
      return x >= 0 ? x : alpha * x;
    case CellActivation::kThresholdedRelu:
      return x >= alpha ? x : T(0);
    case CellActivation::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case CellActivation::kHardSigmoid: {
      const T v = alpha * x + beta;
      return v < 0 ? T(0) : v > 1 ? T(1) : v;
    }
    case CellActivation::kElu:
      return x >= 0 ? x : alpha * (std::exp(x) - T(1));
    case CellActivation::kSoftsign:
      return x / (T(1) + std::abs(x));
    case CellActivation::kSoftplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  return x;
}

// In place over n values; the usual functions on f32 go through SIMD.
template <class T>
void ApplyAll(const CellFunction& f, T* x, int64_t n) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (f.kind == CellActivation::kSigmoid) {
      return UnarySerial(UnaryOp::kSigmoid, DType::kF32, x, x, n);
    }
    if (f.kind == CellActivation::kTanh) return UnarySerial(UnaryOp::kTanh, DType::kF32, x, x, n);
  }
  for (int64_t i = 0; i < n; ++i) x[i] = Apply(f, x[i]);
}

}  // namespace parallax::kernels
