// SpaceToDepth: [N, C, H, W] to [N, C b^2, H / b, W / b]: squares of positions become blocks of
// channels; mode DCR or CRD (opset 28). Since opset 1.
#include "ops/core/copy.h"
#include "ops/core/depth_op.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  PX_ASSIGN_OR_RETURN(DepthBlocks blocks, ReadDepthBlocks(c));
  const int64_t b = blocks.size;
  if (c.rank(0) < 0) return c.SetUnknownDims(0, 4);
  if (c.rank(0) != 4) return Invalid("the input should have rank 4, has {}", c.rank(0));
  const Dims& x = c.dims(0);
  Dims out = {x[0]};
  PX_ASSIGN_OR_RETURN(Dim channels, MulDims(x[1], Dim(b * b)));
  out.push_back(channels);
  for (size_t i : {size_t{2}, size_t{3}}) {
    if (x[i].known() && x[i].extent % b != 0) {
      return Invalid("extent {} does not divide into blocks of {}", x[i].extent, b);
    }
    out.push_back(x[i].known() ? Dim(x[i].extent / b) : Dim());
  }
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(DepthBlocks blocks, ReadDepthBlocks(c));
  return BindStridedCopy(c, "space_to_depth",
                         kernels::SpaceToDepthPlan(c.input(0), blocks.size, blocks.order));
}

}  // namespace

OpDef op_space_to_depth() {
  OpDef def;
  def.name = "SpaceToDepth";
  def.inputs = {{"input", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "blocksize", .required = true},
                    {.name = "mode", .type = AttributeType::kString, .since = 28}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
