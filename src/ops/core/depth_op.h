// Shared parts of DepthToSpace and SpaceToDepth: block size and order of channels.
#pragma once

#include "kernels/move/strided_copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {

struct DepthBlocks {
  int64_t size = 1;  // b: a block is b x b positions
  kernels::DepthOrder order = kernels::DepthOrder::kDepthColumnRow;
};
// The attributes blocksize and mode.
Result<DepthBlocks> ReadDepthBlocks(const NodeContext& c);

}  // namespace parallax::ops
