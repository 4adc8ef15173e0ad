#include "ops/core/depth_op.h"

namespace parallax::ops {

Result<DepthBlocks> ReadDepthBlocks(const NodeContext& c) {
  DepthBlocks blocks{c.Int("blocksize", 0), kernels::DepthOrder::kDepthColumnRow};
  // Small enough that its square times an extent does not overflow before it is checked.
  if (blocks.size < 1 || blocks.size > 1 << 15) return Invalid("blocksize is {}", blocks.size);
  const std::string_view mode = c.String("mode", "DCR");
  if (mode == "CRD") {
    blocks.order = kernels::DepthOrder::kColumnRowDepth;
  } else if (mode != "DCR") {
    return Invalid("mode is '{}'", mode);
  }
  return blocks;
}

}  // namespace parallax::ops
