// Shared parts of Cast and CastLike.
#pragma once

#include <memory>

#include "ops/core/bind_context.h"

namespace parallax::ops {

// The element type of a TensorProto.DataType number; kUndefined for those nobody supports.
DType DTypeFromOnnx(int64_t onnx_type);
// Converts input 0 to the type of output 0.
Result<std::unique_ptr<Kernel>> BindCast(BindContext& c);

}  // namespace parallax::ops
