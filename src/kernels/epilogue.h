// Epilogue: what a GEMM or convolution does to each output element before it is stored.
//
// Role:       lets the planner fuse a following Relu, Relu6, Clip or residual Add into the kernel
//             that produces the tensor, so that the tensor is written once and never read back.
// Ownership:  borrows `residual` for the call.
// Threads:    a value type.
// Invariants: the order is fixed: y = activation(sum + bias + residual). NaN passes through every
//             activation.
// Example:
//   Epilogue relu6{.activation = Activation::kClip, .lo = 0.0f, .hi = 6.0f};
#pragma once

#include <cstdint>
#include <limits>

namespace parallax::kernels {

enum class Activation : uint8_t {
  kNone,
  kRelu,  // max(x, 0)
  kClip,  // min(max(x, lo), hi)
};

struct Epilogue {
  Activation activation = Activation::kNone;
  float lo = -std::numeric_limits<float>::infinity();  // kClip only
  float hi = std::numeric_limits<float>::infinity();   // kClip only
  // Added before the activation; same extents and strides as the output, which it may be (the
  // sum is then accumulated in place) but must not partly overlap. Null: nothing is added.
  const float* residual = nullptr;
};

}  // namespace parallax::kernels
