// NonZero: coordinates of the elements that are not zero, [rank, count], in row-major order. Since
// opset 9. The count is known only when it runs.
#include "kernels/move/nonzero.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  return c.SetDims(0, {c.rank(0) < 0 ? Dim() : Dim(c.rank(0)), Dim()});
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape shape = c.input(0);
  const DType dtype = c.input_type(0);
  return MakeKernel("non_zero", [=](const KernelArgs& a) -> Result<void> {
    const int64_t n = kernels::CountNonZero(dtype, a.raw_in(0), shape.elements(), a.team());
    PX_ASSIGN_OR_RETURN(int64_t * out, a.Allocate<int64_t>(0, Shape{shape.rank(), n}));
    kernels::NonZero(dtype, shape, a.raw_in(0), n, out);
    return {};
  });
}

}  // namespace

OpDef op_non_zero() {
  OpDef def;
  def.name = "NonZero";
  def.since = 9;
  def.inputs = {{"X", kAll}};
  def.outputs = {{"Y", kI64s}};
  def.data_dependent = true;
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
