// Gather: slices of `data` along `axis` (default 0) that the indices name; negative indices count
// from the end. An index outside is an error when it runs. Since opset 1; negative indices
// since 11.
#include "ops/core/axis.h"
#include "ops/core/copy.h"
#include "ops/core/index_check.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

// Picks extents out of a shape.
void PickValues(InferContext& c) {
  const std::optional<Dims> values = c.DimValues(0);
  const std::optional<std::vector<int64_t>> indices = c.HintInts(1);
  if (!values || !indices || c.rank(0) != 1 || c.rank(1) > 1) return;
  Dims picked;
  const int64_t n = static_cast<int64_t>(values->size());
  for (int64_t i : *indices) {
    if (i < -n || i >= n) return;  // reported when it runs
    picked.push_back((*values)[static_cast<size_t>(i < 0 ? i + n : i)]);
  }
  c.SetDimValues(0, std::move(picked));
}

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.rank(0)));
  if (c.rank(1) < 0) return {};
  Dims out(c.dims(0).begin(), c.dims(0).begin() + axis);
  out.insert(out.end(), c.dims(1).begin(), c.dims(1).end());
  out.insert(out.end(), c.dims(0).begin() + axis + 1, c.dims(0).end());
  PickValues(c);
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.input(0).rank()));
  const AxisView v = ViewAround(c.input(0), axis);
  const int64_t n = c.input(1).elements();
  const DType index = c.input_type(1);
  const size_t size = SizeOf(c.input_type(0));
  return MakeKernel("gather", [=](const KernelArgs& a) -> Result<void> {
    PX_RETURN_IF_ERROR(CheckIndices(index, a.raw_in(1), n, v.axis));
    kernels::Gather(size, v.outer, v.axis, v.inner, index, a.raw_in(1), n, a.raw_in(0),
                    a.raw_out(0), a.team());
    return {};
  });
}

}  // namespace

OpDef op_gather() {
  OpDef def;
  def.name = "Gather";
  def.inputs = {{"data", kAll, 'T'}, {"indices", kIndices}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "axis"}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
