// GatherElements: out[i][j] = data[index[i][j]][j] for axis 0, likewise for others; the output has
// the indices' shape. Negative indices count from the end; one outside is an error when it runs.
// Since opset 11.
#include "ops/core/copy.h"
#include "ops/core/index_check.h"
#include "ops/core/infer_context.h"
#include "ops/core/scatter_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(CheckElementIndices(c));
  if (c.rank(1) < 0) return {};
  return c.SetDims(0, c.dims(1));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape in = c.input(0), shape = c.input(1);
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), in.rank()));
  const DType index = c.input_type(1);
  const size_t size = SizeOf(c.input_type(0));
  return MakeKernel("gather_elements", [=](const KernelArgs& a) -> Result<void> {
    PX_RETURN_IF_ERROR(CheckIndices(index, a.raw_in(1), shape.elements(), in[axis]));
    kernels::GatherElements(size, in, shape, axis, index, a.raw_in(1), a.raw_in(0), a.raw_out(0),
                            a.team());
    return {};
  });
}

}  // namespace

OpDef op_gather_elements() {
  OpDef def;
  def.name = "GatherElements";
  def.since = 11;
  def.inputs = {{"data", kAll, 'T'}, {"indices", kIndices}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "axis"}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
