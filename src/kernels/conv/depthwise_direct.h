// Depthwise 3x3 and 5x5 with stride 1 or 2 on one plane, without a patch.
//
// Role:       internal to depthwise.cc, which takes it where it applies; patches take the rest.
// Ownership:  borrows every pointer for the call.
// Threads:    pure apart from the output.
// Cost:       four rows of outputs share what they load: 1.5 loads a vector of products for 3x3
//             stride 1 (4.5 loads for 9 products), where a tap at a time takes 9.
// Invariants: the sums of depthwise.cc's other path, in the same order of taps.
#pragma once

#include <cstdint>

#include "kernels/conv/patch.h"

namespace parallax::kernels {

struct DirectPlaneArgs {
  const float* plane = nullptr;  // input, in_rows x in_columns
  int64_t in_rows = 0, in_columns = 0;
  int64_t pad_row = 0, pad_column = 0;
  int64_t out_columns = 0;
  int64_t row = 0, rows = 0;  // output rows [row, row + rows), whole width
  const float* weights = nullptr;
  float bias = 0.0f;
  bool clamp = false;
  float lo = 0.0f, hi = 0.0f;
  const float* residual = nullptr;  // at the first row, like out
  float* out = nullptr;
};

// Square kernel of 3 or 5, square stride of 1 or 2, no dilation, not too much padding.
bool HasDirectPlane(const ConvAxes& axes);

// Vectors start at every position and lanes outside a row are dropped, so a plane's neighbours in
// memory are read (never used): floats [plane - before, plane + after) must exist.
struct PlaneReach {
  int64_t before = 0, after = 0;
};
PlaneReach DirectPlaneReach(const ConvAxes& axes);

void DirectPlane(const ConvAxes& axes, const DirectPlaneArgs& args);

}  // namespace parallax::kernels
