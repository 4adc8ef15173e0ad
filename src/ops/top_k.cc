// TopK: the k largest or smallest elements along an axis and their indices, best first; of equal
// ones the lower index. k: an attribute until opset 9, an input since 10; `largest` and `sorted`
// since 11 (results are sorted whatever it says).
#include "kernels/reduce/top_k.h"
#include "ops/core/axis.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), c.rank(0)));
  Dims out = c.dims(0);
  Dim& extent = out[static_cast<size_t>(axis)];
  Dim k;
  if (c.opset() < 10) {
    if (c.Int("k", 0) < 0) return Invalid("k is {}", c.Int("k", 0));
    k = Dim(c.Int("k", 0));
  } else if (std::optional<std::vector<int64_t>> ints = c.ConstantInts(1)) {
    if (ints->size() != 1 || (*ints)[0] < 0) {
      return Invalid("k should be one number of 0 or more");
    }
    k = Dim((*ints)[0]);
  } else if (std::optional<Dims> dims = c.DimValues(1); dims && dims->size() == 1) {
    k = (*dims)[0];
  }
  if (k.known() && extent.known() && k.extent > extent.extent) {
    return Invalid("k is {}, the axis has {} elements", k.extent, extent.extent);
  }
  extent = k;
  PX_RETURN_IF_ERROR(c.SetDims(1, out));
  return c.SetDims(0, std::move(out));
}

Cost Estimate(const CostContext& c) {
  return {.op_class = OpClass::kReduce, .flops = static_cast<double>(c.input(0).elements())};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", -1), c.input(0).rank()));
  const AxisView v = ViewAround(c.input(0), axis);
  // Either output may be left out.
  const int64_t k = c.output(c.has_output(0) ? 0 : 1)[axis];
  const kernels::TopKOrder order =
      c.Int("largest", 1) != 0 ? kernels::TopKOrder::kLargest : kernels::TopKOrder::kSmallest;
  const DType dtype = c.input_type(0);
  return MakeKernel(
      "top_k",
      [=](const KernelArgs& a) {
        kernels::TopK(order, dtype, v.outer, v.axis, v.inner, k, a.raw_in(0), a.raw_out(0),
                      a.out<int64_t>(1), a.workspace(), a.team());
      },
      kernels::TopKWorkspaceBytes(k, c.team_size()));
}

}  // namespace

OpDef op_top_k() {
  OpDef def;
  def.name = "TopK";
  def.inputs = {{"X", kNumbers, 'T'}, Steers({"K", kI64s, 0, Arity::kOne, 10})};
  def.outputs = {{"Values", kNumbers, 'T'}, {"Indices", kI64s}};
  def.attributes = {{.name = "axis"},
                    {.name = "k", .required = true, .until = 9},
                    {.name = "largest", .since = 11},
                    {.name = "sorted", .since = 11}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
