// The activation functions of recurrent cells, with ONNX's parameters.
//
// Role:       gates of LSTM, GRU and RNN.
// Ownership:  borrows its pointers.
// Threads:    pure.
// Cost:       one pass over n values; allocates nothing.
// Invariants: NaN in, NaN out. An element's result depends on that element alone.
// Source:     ONNX operator specification, LSTM: "Activation functions".
// Example:
//   ApplyCellFunction({CellActivation::kScaledTanh, 1.7f, 0.67f}, gates, hidden);
#pragma once

#include <cmath>
#include <cstdint>

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
  kSoftsign,         // x / (1 + |x|)
  kSoftplus,         // log(1 + e^x)
};

struct CellFunction {
  CellActivation kind = CellActivation::kTanh;
  float alpha = 0;
  float beta = 0;
};

// One value; T is float or double.
template <class T>
T CellValue(const CellFunction& f, T x) {
  const T alpha = static_cast<T>(f.alpha), beta = static_cast<T>(f.beta);
  switch (f.kind) {
    case CellActivation::kRelu:
      return x < 0 ? T(0) : x;
    case CellActivation::kTanh:
      return std::tanh(x);
    case CellActivation::kSigmoid: {
      const T z = std::exp(-std::abs(x));  // no overflow at either end
      return (x < 0 ? z : T(1)) / (1 + z);
    }
    case CellActivation::kAffine:
      return alpha * x + beta;
    case CellActivation::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case CellActivation::kThresholdedRelu:
      return x >= alpha ? x : T(0);
    case CellActivation::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case CellActivation::kHardSigmoid: {
      const T v = alpha * x + beta;
      return v < 0 ? T(0) : v > 1 ? T(1) : v;
    }
    case CellActivation::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case CellActivation::kSoftsign:
      return x / (1 + std::abs(x));
    case CellActivation::kSoftplus:
      return (x < 0 ? T(0) : x) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

// x[i] = f(x[i]) for n values, on SIMD.
void ApplyCellFunction(const CellFunction& f, float* x, int64_t n);

}  // namespace parallax::kernels
