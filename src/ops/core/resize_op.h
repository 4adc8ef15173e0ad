// Shared parts of Resize and Upsample: what scales, sizes and roi mean for each axis.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/resize/resize.h"
#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {

// Where the numbers come from: input positions, -1 for none.
struct ResizeInputs {
  int roi = -1, scales = -1, sizes = -1;
};

// The numbers themselves; empty lists are not given.
struct ResizeNumbers {
  std::vector<float> roi, scales;
  std::vector<int64_t> sizes;
};

// Output extents and per-axis scales for an input of that shape.
struct ResizeGeometry {
  Shape out;
  std::vector<kernels::ResizeAxis> axes;
};
Result<ResizeGeometry> ResolveResize(const NodeContext& c, const Shape& in,
                                     const ResizeNumbers& numbers);

// Sets output 0 of a resize whose numbers are in inputs or given.
Result<void> InferResize(InferContext& c, const ResizeInputs& inputs,
                         const std::vector<float>* attribute_scales);
Result<std::unique_ptr<Kernel>> BindResize(BindContext& c, const ResizeInputs& inputs,
                                           const std::vector<float>* attribute_scales,
                                           const kernels::ResizeOptions& options);
Cost ResizeCost(const CostContext& c);

}  // namespace parallax::ops
