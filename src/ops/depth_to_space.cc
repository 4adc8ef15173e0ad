// DepthToSpace: [N, C, H, W] to [N, C / b^2, H b, W b]: blocks of channels become squares of
// positions; mode DCR or CRD (opset 11). Since opset 1.
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
  if (x[1].known() && x[1].extent % (b * b) != 0) {
    return Invalid("{} channels do not divide into blocks of {}", x[1].extent, b * b);
  }
  PX_ASSIGN_OR_RETURN(Dim h, MulDims(x[2], Dim(b)));
  PX_ASSIGN_OR_RETURN(Dim w, MulDims(x[3], Dim(b)));
  return c.SetDims(0, {x[0], x[1].known() ? Dim(x[1].extent / (b * b)) : Dim(), h, w});
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(DepthBlocks blocks, ReadDepthBlocks(c));
  return BindStridedCopy(c, "depth_to_space",
                         kernels::DepthToSpacePlan(c.input(0), blocks.size, blocks.order));
}

}  // namespace

OpDef op_depth_to_space() {
  OpDef def;
  def.name = "DepthToSpace";
  def.inputs = {{"input", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "blocksize", .required = true},
                    {.name = "mode", .type = AttributeType::kString, .since = 11}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
