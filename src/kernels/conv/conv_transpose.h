// ConvTranspose: f32 transposed convolution of any spatial rank, NC* layout.
//
//   y[n,oc,o] = act(bias[oc] + sum over ic, i, k with o = i*stride + k*dilation - pad
//                   of x[n,ic,i] * w[ic,oc,k])                          (ONNX ConvTranspose)
//
// Role:       the op ConvTranspose. ConvShape's `in` and `out` are this operator's own input and
//             output; output_padding and pads_end are already in `out`.
// Ownership, Threads: as conv.h.
// Cost:       a GEMM of [oc*kernel, ic] x [ic, in], whose columns are added up per output channel
//             in a fixed order. Tasks are blocks of output channels and of the first spatial
//             dimension; input under the border of two blocks is multiplied in both. Allocates
//             nothing.
// Invariants: the same bits for every team size.
// Example:
//   ConvTransposePlan plan = PlanConvTranspose(shape);
//   PackConvTransposeWeights(plan, weights, packed);
//   ConvTranspose(plan, x, packed, bias, {}, y, workspace, team);
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/conv_shape.h"
#include "kernels/epilogue.h"
#include "threads/team.h"

namespace parallax::kernels {

struct ConvTransposePlan {
  ConvShape shape;
  size_t packed_weight_bytes = 0;  // a multiple of 64
  size_t worker_bytes = 0;         // workspace slice of one worker
  int64_t channels_per_task = 0;   // output channels of a group
  int64_t rows_per_task = 0;       // of the first spatial dimension of the output
  const char* name() const { return "conv_transpose_gemm"; }
};

ConvTransposePlan PlanConvTranspose(const ConvShape& shape);

// `weights`: f32 [in_channels, out_channels/groups, kernel...], possibly misaligned.
void PackConvTransposeWeights(const ConvTransposePlan& plan, const void* weights, void* packed);

size_t ConvTransposeWorkspaceBytes(const ConvTransposePlan& plan, int team_size);

void ConvTranspose(const ConvTransposePlan& plan, const float* input, const void* packed,
                   const float* bias, const Epilogue& epilogue, float* output, void* workspace,
                   Team& team);

}  // namespace parallax::kernels
