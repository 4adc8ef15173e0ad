// LpNormalization: x / |x|_p along an axis (default -1), p 1 or 2 (default); 0 where the norm is 0.
// Since opset 1.
#include "kernels/norm/row_norm.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const int64_t p = c.Int("p", 2);
  if (p != 1 && p != 2) return Invalid("p is {}, should be 1 or 2", p);
  if (c.rank(0) >= 0) PX_RETURN_IF_ERROR(NormalizeAxis(c.Int("axis", -1), c.rank(0)));
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), c.input(0).rank()));
  const AxisView v = ViewAround(c.input(0), axis);
  const int p = static_cast<int>(c.Int("p", 2));
  const DType dtype = c.input_type(0);
  return MakeKernel("lp_normalize", [=](const KernelArgs& a) {
    kernels::LpNormalize(dtype, v.outer, v.axis, v.inner, p, a.raw_in(0), a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_lp_normalization() {
  OpDef def;
  def.name = "LpNormalization";
  def.inputs = {{"input", kFloats, 'T'}};
  def.outputs = {{"output", kFloats, 'T'}};
  def.attributes = {{.name = "axis"}, {.name = "p"}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = NormCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
