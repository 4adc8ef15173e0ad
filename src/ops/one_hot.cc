// OneHot: a new axis of `depth`, `on` where the index names the position and `off` elsewhere;
// values = [off, on]. Negative indices count from the end, others outside give only `off`. Since
// opset 9.
#include "kernels/move/fill.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (std::optional<Shape> s = c.type(1).shape(); s && s->elements() != 1) {
    return Invalid("depth should have one element, has shape {}", s->ToString());
  }
  if (std::optional<Shape> s = c.type(2).shape(); s && !(*s == Shape{2})) {
    return Invalid("values should be [off, on], have shape {}", s->ToString());
  }
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), c.rank(0) + 1));
  Dim depth;
  if (const Tensor* t = c.constant(1)) {
    PX_ASSIGN_OR_RETURN(Tensor aligned, t->Aligned());
    double value = 0;
    DispatchType(aligned.dtype(),
                 [&]<class T>() { value = static_cast<double>(*aligned.data<T>()); });
    if (!(value >= 1) || value > 2147483647.0) return Invalid("depth is {}", value);
    depth = Dim(static_cast<int64_t>(value));
  } else if (std::optional<Dims> dims = c.DimValues(1); dims && dims->size() == 1) {
    depth = (*dims)[0];
  }
  Dims out = c.dims(0);
  out.insert(out.begin() + axis, depth);
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& x = c.input(0);
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), x.rank() + 1));
  const int64_t outer = x.Elements(0, axis), inner = x.Elements(axis, x.rank());
  const int64_t depth = c.output(0)[axis];
  const DType index = c.input_type(0);
  const size_t size = SizeOf(c.output_type(0));
  return MakeKernel("one_hot", [=](const KernelArgs& a) {
    const std::byte* values = a.in<std::byte>(2);
    kernels::OneHot(size, outer, depth, inner, index, a.raw_in(0), values, values + size,
                    a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_one_hot() {
  OpDef def;
  def.name = "OneHot";
  def.since = 9;
  def.inputs = {{"indices", kNumbers}, Steers({"depth", kNumbers}), {"values", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "axis"}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
