// MaxPool, AveragePool and LpPool: f32 windows of any spatial rank, NC* layout; global pools.
//
// Role:       the ops MaxPool, AveragePool, LpPool, GlobalMaxPool, GlobalAveragePool.
// Ownership:  borrows every pointer for the call; needs no workspace.
// Threads:    pure apart from the outputs; one call uses one Team.
// Cost:       one pass over the input per output row; allocates nothing.
// Invariants: the same bits for every team size. Elements outside the input never count in a
//             maximum; in an average they count as zeros when `count` says so. A window wholly
//             outside the input gives -infinity (max) or 0 (average). NaN wins every maximum.
// Example:
//   PoolShape s{.channels = 64, .in = {40, 40}, .out = {40, 40}, .kernel = {5, 5},
//               .pads_begin = {2, 2}, .pads_end = {2, 2}};
//   MaxPool(s, x, y, /*indices=*/nullptr, IndexOrder::kRowMajor, team);
#pragma once

#include <cstdint>

#include "kernels/conv/conv_shape.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class PadCount : uint8_t {
  kExclude,  // divide by the number of input elements under the window
  kInclude,  // by the elements of the padded input under it (ceil_mode's overhang never counts)
};

enum class IndexOrder : uint8_t {
  kRowMajor,     // storage_order 0
  kColumnMajor,  // storage_order 1: the spatial dimensions counted first one fastest
};

struct PoolShape {
  int64_t batch = 1;
  int64_t channels = 1;
  int rank = 2;  // spatial dimensions, 1..kMaxSpatial
  int64_t in[kMaxSpatial] = {};
  int64_t out[kMaxSpatial] = {};  // computed by shape inference (ceil_mode is in it)
  int64_t kernel[kMaxSpatial] = {};
  int64_t strides[kMaxSpatial] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  int64_t dilations[kMaxSpatial] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  int64_t pads_begin[kMaxSpatial] = {};
  int64_t pads_end[kMaxSpatial] = {};  // read by PadCount::kInclude only
};

// `input` [batch, channels, in...], `output` and `indices` [batch, channels, out...]. An index is
// the position of the (first) maximum in the whole input tensor, as ONNX MaxPool's second output;
// null: not wanted.
void MaxPool(const PoolShape& shape, const float* input, float* output, int64_t* indices,
             IndexOrder order, Team& team);

void AveragePool(const PoolShape& shape, const float* input, float* output, PadCount count,
                 Team& team);

// (sum over the window of |x|^p)^(1/p); padding counts as zeros. p >= 1.
void LpPool(const PoolShape& shape, const float* input, float* output, int64_t p, Team& team);

// One value per plane of `plane` elements: input [planes, plane], output [planes]. `plane` >= 1.
void GlobalMaxPool(int64_t planes, int64_t plane, const float* input, float* output, Team& team);
void GlobalAveragePool(int64_t planes, int64_t plane, const float* input, float* output,
                       Team& team);

}  // namespace parallax::kernels
