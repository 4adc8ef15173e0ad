// Conv: f32 convolution of any spatial rank, channels first or last, with an epilogue fused.
//
//   y[n,oc,o] = epilogue(bias[oc] + sum over ic, k of w[oc,ic,k] * x[n,ic, o*stride + k*dilation -
//                        pad])                      (x is 0 outside; ONNX Conv)
//
// Role:       the op Conv, its fused form and (through float) their 16-bit forms.
// Ownership:  borrows every pointer for the call; the packed weights belong to the caller
//             (64-byte aligned memory) and are read at every call. Never store them on disk: their
//             layout is that of the running CPU's best target.
// Threads:    pure apart from the output; one call uses one Team.
// Cost:       allocates nothing; no im2col buffer beyond one block a worker.
// Invariants: the same bits for every team size. An output element that sees only padding is
//             act(bias + residual). Extents of 0 are legal.
// Example:
//   ConvPlan plan = PlanConv(shape);
//   PackConvWeights(plan, weights, packed);                    // plan.packed_weight_bytes, once
//   Conv(plan, x, packed, bias, {.activation = Activation::kRelu}, y, workspace, team);
// Weights known only at run time: pack them into the start of a buffer of
// packed_weight_bytes + ConvWorkspaceBytes at each call and pass the rest as the workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/conv/conv_shape.h"
#include "kernels/epilogue.h"
#include "kernels/gemm/gemm.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class ConvAlgorithm : uint8_t {
  // What it is for; as what it is printed (ConvPlan::name); where it is.
  kEmpty,      // no output element
  kPointwise,  // 1x1, stride 1, no padding: a product; conv_pointwise*; ../gemm/gemm.cc
  // Channels first.
  kImplicitGemm,  // rank 1..3: input patches go straight into panels; conv_implicit_gemm; implicit.cc
  kDepthwise,     // one channel in, up to four out per group, rank 1 or 2: along rows; depthwise.cc
  kDirect,        // anything else: the formula, scalar; conv_direct; conv.cc
  // Channels last; see SupportsChannelsLast.
  kIndirectGemm,  // rank 1..3: tiles read the input where it lies; conv_indirect_gemm; channels_last.cc
  kStem,          // few planes in, channels last out; conv_stem; stem.cc
  kDepthwiseLast,  // one channel in and out a group, rank 1 or 2; conv_depthwise_last; depthwise_last.cc
  kWinograd2,  // 3x3, stride 1: tiles of 2x2; conv_winograd_2x2; winograd.cc
  kWinograd4,  // or 4x4 outputs; conv_winograd_4x4
};

// The error of a Winograd convolution against f64 is at most about c * depth * 2^-24 of the sum of
// absolute products, with c = 10 for 2x2 and 100 for 4x4 tiles; a plain one's c is 1.
struct ConvOptions {
  bool precise = false;  // no algorithm that changes what is multiplied: no Winograd
  // Not kEmpty: this one, for measurements and tests. REQUIRES: it can compute the shape.
  ConvAlgorithm algorithm = ConvAlgorithm::kEmpty;
};

struct ConvPlan {
  ConvShape shape;  // with its sources, of which there is at least one
  ConvAlgorithm algorithm = ConvAlgorithm::kEmpty;
  size_t packed_weight_bytes = 0;  // a multiple of 64
  size_t worker_bytes = 0;         // workspace slice of one worker
  GemmPlan gemm;                   // kPointwise
  // kIndirectGemm: its tasks' positions are equally many tiles; the channels of a group lie between cuts.
  int64_t row_tasks = 0;
  std::vector<int64_t> channel_cuts = {};
  // kImplicitGemm and kDepthwise: the block of output one task computes; kStem, kDepthwiseLast: its
  // rows.
  int64_t rows_per_task = 0, columns_per_task = 0;
  int64_t channels_per_task = 0;  // output channels of one group (implicit), of all (depthwise)
  int64_t in_channel_block = 0;   // kImplicitGemm: input channels summed in one go
  int64_t tiles_per_task = 0;     // kWinograd*
  const char* name() const;       // "conv_implicit_gemm"... for reports and traces
};

// Whether there is a path for this shape with channels last.
bool SupportsChannelsLast(const ConvShape& shape);

// Whether it may read its input from the shape's sources: parts of the channels of one picture, or
// several pictures side by side, which then need not be joined before.
bool SupportsSources(const ConvShape& shape);

// Pure function of the shape (and of the running CPU's vector width). REQUIRES: channels last and
// sources only where supported.
ConvPlan PlanConv(const ConvShape& shape, const ConvOptions& options = {});

// `weights`: f32 [out_channels, in_channels/groups, kernel...], possibly misaligned.
void PackConvWeights(const ConvPlan& plan, const void* weights, void* packed);

// Bytes of 64-byte aligned workspace for a team of `team_size`.
size_t ConvWorkspaceBytes(const ConvPlan& plan, int team_size);

// `input` [batch, in_channels, in...], `bias` [out_channels] or null, `output`
// [batch, out_channels, out...], or channels last; the residual, where given, has the output's
// shape.
// With sources, `inputs` are their pictures.
void Conv(const ConvPlan& plan, const float* const* inputs, const void* packed, const float* bias,
          const Epilogue& epilogue, float* output, void* workspace, Team& team);
inline void Conv(const ConvPlan& plan, const float* input, const void* packed, const float* bias,
                 const Epilogue& epilogue, float* output, void* workspace, Team& team) {
  Conv(plan, &input, packed, bias, epilogue, output, workspace, team);
}

}  // namespace parallax::kernels
