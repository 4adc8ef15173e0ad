// Epilogue: what a GEMM or convolution does to each output element before it is done with it.
//
// Role:       lets passes fuse a following activation or residual Add into the kernel that produces
//             the tensor, so that the tensor is written once and not read back from memory.
// Ownership:  borrows `residual` for the call.
// Threads:    value types; FinishBlock is pure apart from its block.
// Invariants: y = activation(sum + bias + residual) * scale + shift, or
//             activation(sum + bias) * scale + shift + residual where `residual_last`. NaN passes
//             through every activation. Clamps happen in registers; what takes a polynomial is done
//             to a block that was just stored and still lies in a cache.
// Example:
//   Epilogue relu6{.activation = Activation::kClip, .lo = 0.0f, .hi = 6.0f};
//   Epilogue silu{.activation = Activation::kUnary, .op = UnaryOp::kSilu, .params = {.alpha = 1}};
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/elementwise/unary.h"

namespace parallax::kernels {

enum class Activation : uint8_t {
  kNone,
  kRelu,   // max(x, 0)
  kClip,   // min(max(x, lo), hi)
  kUnary,  // op(x, params): any f32 function of unary.h
};

struct Epilogue {
  Activation activation = Activation::kNone;
  float lo = -std::numeric_limits<float>::infinity();  // kClip only
  float hi = std::numeric_limits<float>::infinity();   // kClip only
  UnaryOp op = UnaryOp::kRelu;                         // kUnary only
  UnaryParams params = {};                             // kUnary only
  float scale = 1.0f, shift = 0.0f;
  // Same extents and strides as the output, which it may be (the sum is then accumulated in place)
  // but must not partly overlap. Null: nothing is added.
  const float* residual = nullptr;
  bool residual_last = false;  // added after that; REQUIRES: it is not the output

  // What inner kernels do to a sum: clamp to [low(), high()], which is infinite where clamps() is false.
  bool clamps() const { return activation == Activation::kRelu || activation == Activation::kClip; }
  float low() const {
    if (activation == Activation::kClip) return lo;
    return activation == Activation::kRelu ? 0.0f : -std::numeric_limits<float>::infinity();
  }
  float high() const {
    return activation == Activation::kClip ? hi : std::numeric_limits<float>::infinity();
  }
  // And add to it before that.
  const float* first_residual() const { return residual_last ? nullptr : residual; }
  bool rescales() const { return scale != 1.0f || shift != 0.0f; }
  // Whether FinishBlock has anything to do afterwards.
  bool finishes() const {
    return activation == Activation::kUnary || rescales() || (residual != nullptr && residual_last);
  }
};

// Does what finishes() says to a stored block: `rows` rows of `columns` floats, `ld` apart, with
// `residual` (where added last) at the block's place in Epilogue::residual.
void FinishBlock(const Epilogue& epilogue, float* block, const float* residual, int64_t rows,
                 int64_t columns, int64_t ld);

}  // namespace parallax::kernels
