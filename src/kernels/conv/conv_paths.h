// The convolution paths behind Conv: planning, packing and running of each.
//
// Role:       internal to conv; conv.cc chooses among them.
// Ownership, Threads, Invariants: as conv.h.
#pragma once

#include <limits>

#include "kernels/conv/conv.h"
#include "kernels/conv/patch.h"

namespace parallax::kernels {

// One call's operands.
struct ConvArgs {
  const float* input = nullptr;
  const float* packed = nullptr;
  const float* bias = nullptr;
  Epilogue epilogue;
  float* output = nullptr;
  std::byte* workspace = nullptr;

  bool clamps() const { return epilogue.activation != Activation::kNone; }
  float lo() const { return epilogue.activation == Activation::kRelu ? 0.0f : epilogue.lo; }
  float hi() const {
    return epilogue.activation == Activation::kRelu ? std::numeric_limits<float>::infinity()
                                                    : epilogue.hi;
  }
};

// kImplicitGemm. Weights are panels of A for each group and block of input channels, in the order
// (tap, input channel of the block), so that the inner loop runs over channels of the patches.
void PlanImplicit(ConvPlan& plan);
void PackImplicit(const ConvPlan& plan, const void* weights, float* packed);
void RunImplicit(const ConvPlan& plan, const ConvArgs& args, Team& team);

// kDepthwise: in_channels == groups. Weights stay [out_channels, kernel...].
void PlanDepthwise(ConvPlan& plan);
void RunDepthwise(const ConvPlan& plan, const ConvArgs& args, Team& team);

}  // namespace parallax::kernels
