// CumSum: running sums along an axis; `exclusive` leaves the element itself out, `reverse` starts
// at the end. Since opset 11. Accuracy: kernels/reduce/arg_reduce.h.
#include "kernels/reduce/arg_reduce.h"
#include "ops/core/axis.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (std::optional<Shape> s = c.type(1).shape(); s && s->elements() != 1) {
    return Invalid("axis should have one element, has shape {}", s->ToString());
  }
  if (std::optional<std::vector<int64_t>> axis = c.ConstantInts(1); axis && c.rank(0) >= 0) {
    PX_RETURN_IF_ERROR(NormalizeAxis((*axis)[0], c.rank(0)));
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape shape = c.input(0);
  const DType dtype = c.input_type(0), axis_type = c.input_type(1);
  const kernels::CumSumEnd end =
      c.Int("exclusive", 0) != 0 ? kernels::CumSumEnd::kExclusive : kernels::CumSumEnd::kInclusive;
  const kernels::CumSumOrder order =
      c.Int("reverse", 0) != 0 ? kernels::CumSumOrder::kReverse : kernels::CumSumOrder::kForward;
  return MakeKernel("cum_sum", [=](const KernelArgs& a) -> Result<void> {
    const int64_t given = axis_type == DType::kI32 ? int64_t{*a.in<int32_t>(1)} : *a.in<int64_t>(1);
    PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(given, shape.rank()));
    const AxisView v = ViewAround(shape, axis);
    kernels::CumSum(dtype, v.outer, v.axis, v.inner, a.raw_in(0), a.raw_out(0), end, order,
                    a.team());
    return {};
  });
}

}  // namespace

OpDef op_cum_sum() {
  OpDef def;
  def.name = "CumSum";
  def.since = 11;
  def.inputs = {{"x", kNumbers, 'T'}, Steers({"axis", kIndices})};
  def.outputs = {{"y", kNumbers, 'T'}};
  def.attributes = {{.name = "exclusive"}, {.name = "reverse"}};
  def.infer = Infer;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
