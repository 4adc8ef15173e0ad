// ScatterND: a copy of the data with the slices that tuples of indices name op= updates. Without a
// reduction the last update of a place wins. Since opset 11; reductions since 16 (add, mul) and 18
// (max, min).
#include <cstring>

#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/index_check.h"
#include "ops/core/scatter_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(ReductionOf(c));
  if (c.rank(0) < 0 || c.rank(1) < 0) return c.SetSameAsInput(0, 0);
  if (c.rank(0) < 1 || c.rank(1) < 1) return Invalid("data and indices should have rank 1 or more");
  const Dim& width = c.dims(1).back();
  if (width.known() && width.extent > c.rank(0)) {
    return Invalid("tuples of {} indices for data of rank {}", width.extent, c.rank(0));
  }
  if (width.known() && c.rank(2) >= 0) {
    Dims wanted(c.dims(1).begin(), c.dims(1).end() - 1);
    wanted.insert(wanted.end(), c.dims(0).begin() + width.extent, c.dims(0).end());
    bool fits = wanted.size() == c.dims(2).size();
    for (size_t i = 0; fits && i < wanted.size(); ++i) {
      fits = MergeDim(wanted[i], c.dims(2)[i], "").ok();
    }
    if (!fits) {
      return Invalid("updates have shape {}, should be {}", DimsToString(c.dims(2)),
                     DimsToString(wanted));
    }
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape data = c.input(0), indices = c.input(1);
  PX_ASSIGN_OR_RETURN(kernels::ScatterReduction reduction, ReductionOf(c));
  const int64_t width = indices[indices.rank() - 1];
  const int64_t tuples = indices.Elements(0, indices.rank() - 1);
  const int64_t inner = data.Elements(static_cast<int>(width), data.rank());
  const DType index = c.input_type(1), dtype = c.input_type(0);
  const size_t bytes = static_cast<size_t>(data.elements()) * SizeOf(dtype);
  return MakeKernel("scatter_nd", [=](const KernelArgs& a) -> Result<void> {
    PX_RETURN_IF_ERROR(CheckTuples(index, a.raw_in(1), tuples, width, data.dims().data()));
    if (bytes > 0 && a.raw_in(0) != a.raw_out(0)) std::memcpy(a.raw_out(0), a.raw_in(0), bytes);
    kernels::ScatterNd(reduction, dtype, tuples, width, data.dims().data(), inner, index,
                       a.raw_in(1), a.raw_in(2), a.raw_out(0), a.team());
    return {};
  });
}

}  // namespace

OpDef op_scatter_nd() {
  OpDef def;
  def.name = "ScatterND";
  def.since = 11;
  def.inputs = {{"data", kAll, 'T'}, {"indices", kI64s}, {"updates", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "reduction", .type = AttributeType::kString, .since = 16}};
  def.aliases = {{.input = 0, .output = 0, .exclusive = true}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
