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
  const float* input = nullptr;          // its first channel that is read
  const float* const* inputs = nullptr;  // the sources' pictures
  const float* packed = nullptr;
  const float* bias = nullptr;
  Epilogue epilogue;
  float* output = nullptr;
  std::byte* workspace = nullptr;

  bool clamps() const { return epilogue.clamps(); }
  float lo() const { return epilogue.low(); }
  float hi() const { return epilogue.high(); }
};

// kImplicitGemm. Weights are panels of A for each group and block of input channels, in the order
// (tap, input channel of the block), so that the inner loop runs over channels of the patches.
void PlanImplicit(ConvPlan& plan);
void PackImplicit(const ConvPlan& plan, const void* weights, float* packed);
void RunImplicit(const ConvPlan& plan, const ConvArgs& args, Team& team);

// kIndirectGemm. Weights are panels of B for each group, rows in the order (tap, input channel).
// Whether it gathers blocks of the input instead of reading it where it lies.
bool GathersInput(const ConvShape& shape);
void PlanChannelsLast(ConvPlan& plan);
void PackChannelsLast(const ConvPlan& plan, const void* weights, float* packed);
void RunChannelsLast(const ConvPlan& plan, const ConvArgs& args, Team& team);

// kStem. Weights are panels of [tap][input channel][output channel].
bool HasStem(const ConvShape& shape);
void PlanStem(ConvPlan& plan);
void PackStem(const ConvPlan& plan, const void* weights, float* packed);
void RunStem(const ConvPlan& plan, const ConvArgs& args, Team& team);

// kDepthwiseLast. Weights are [tap][channel].
void PlanDepthwiseLast(ConvPlan& plan);
void PackDepthwiseLast(const ConvPlan& plan, const void* weights, float* packed);
void RunDepthwiseLast(const ConvPlan& plan, const ConvArgs& args, Team& team);
// Some rows of one image and some channels of each, from a whole cache line on.
struct DepthwisePart {
  int64_t row = 0, rows = 0;
  int64_t channel = 0, channels = 0;
};
// Where the rows of the input lie: in a ring of `rows` rows, from its row `first` on.
struct RowRing {
  int64_t rows = 0, first = 0;
};
// That part of the image at which output and residual start, and the input's ring, on the calling thread.
// `axes` are the shape's, or those of a part of its rows.
void RunDepthwiseLastPart(const ConvPlan& plan, const ConvAxes& axes, const ConvArgs& args,
                          const DepthwisePart& part, const RowRing& ring);

// kWinograd2 and kWinograd4. Weights are panels of B for each point.
bool HasWinograd(const ConvShape& shape);
void PlanWinograd(ConvPlan& plan);
void PackWinograd(const ConvPlan& plan, const void* weights, float* packed);
void RunWinograd(const ConvPlan& plan, const ConvArgs& args, Team& team);

// kDepthwise: in_channels == groups. Weights stay [out_channels, kernel...].
void PlanDepthwise(ConvPlan& plan);
void RunDepthwise(const ConvPlan& plan, const ConvArgs& args, Team& team);

}  // namespace parallax::kernels
