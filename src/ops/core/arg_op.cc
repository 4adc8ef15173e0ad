#include "ops/core/arg_op.h"

#include "ops/core/axis.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.rank(0)));
  Dims out = c.dims(0);
  const Dim extent = out[static_cast<size_t>(axis)];
  if (c.Int("keepdims", 1) != 0) {
    out[static_cast<size_t>(axis)] = Dim(1);
  } else {
    out.erase(out.begin() + axis);
  }
  if (extent == Dim(0)) {
    Dim rest(1);
    for (const Dim& d : out) rest = d == Dim(0) ? Dim(0) : rest;
    if (!(rest == Dim(0))) return Invalid("axis {} has no element to choose from", axis);
  }
  return c.SetDims(0, std::move(out));
}

Cost Estimate(const CostContext& c) {
  return {.op_class = OpClass::kReduce, .flops = static_cast<double>(c.input(0).elements())};
}

}  // namespace

Result<std::unique_ptr<Kernel>> BindArg(BindContext& c, kernels::ArgOp op) {
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.input(0).rank()));
  const AxisView v = ViewAround(c.input(0), axis);
  const kernels::Ties ties =
      c.Int("select_last_index", 0) != 0 ? kernels::Ties::kLast : kernels::Ties::kFirst;
  const DType dtype = c.input_type(0);
  return MakeKernel("arg_reduce", [=](const KernelArgs& a) {
    kernels::ArgReduce(op, ties, dtype, v.outer, v.axis, v.inner, a.raw_in(0), a.out<int64_t>(0),
                       a.team());
  });
}

OpDef ArgDef(std::string_view name, Result<std::unique_ptr<Kernel>> (*bind)(BindContext&)) {
  OpDef def;
  def.name = name;
  def.inputs = {{"data", kNumbers}};
  def.outputs = {{"reduced", kI64s}};
  def.attributes = {
      {.name = "axis"}, {.name = "keepdims"}, {.name = "select_last_index", .since = 12}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = bind;
  return def;
}

}  // namespace parallax::ops
