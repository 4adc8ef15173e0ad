// GatherND: slices of the data that tuples of indices name; the last axis of the indices is the
// tuple. batch_dims leading axes are shared (opset 12). Negative indices count from the end; one
// outside is an error when it runs. Since opset 11.
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/index_check.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0 || c.rank(1) < 0) return {};
  const int64_t batch = c.Int("batch_dims", 0);
  if (c.rank(0) < 1 || c.rank(1) < 1) return Invalid("data and indices should have rank 1 or more");
  if (batch < 0 || batch >= c.rank(0) || batch >= c.rank(1)) {
    return Invalid("batch_dims is {} for ranks {} and {}", batch, c.rank(0), c.rank(1));
  }
  const Dims& data = c.dims(0);
  const Dims& indices = c.dims(1);
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    PX_RETURN_IF_ERROR(MergeDim(data[i], indices[i], fmt::format("batch extent {}", i)));
  }
  const Dim& width = indices.back();
  if (!width.known()) return {};
  if (width.extent + batch > c.rank(0)) {
    return Invalid("tuples of {} indices for data of rank {}", width.extent, c.rank(0));
  }
  Dims out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), data.begin() + batch + width.extent, data.end());
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape data = c.input(0), indices = c.input(1);
  const int batch_dims = static_cast<int>(c.Int("batch_dims", 0));
  const int64_t width = indices[indices.rank() - 1];
  const int after = batch_dims + static_cast<int>(width);
  const int64_t batch = data.Elements(0, batch_dims);
  const int64_t tuples = indices.Elements(batch_dims, indices.rank() - 1);
  const int64_t inner = data.Elements(after, data.rank());
  Shape bounds;
  for (int i = batch_dims; i < after; ++i) bounds.Append(data[i]);
  const DType index = c.input_type(1);
  const size_t size = SizeOf(c.input_type(0));
  return MakeKernel("gather_nd", [=](const KernelArgs& a) -> Result<void> {
    PX_RETURN_IF_ERROR(
        CheckTuples(index, a.raw_in(1), batch * tuples, width, bounds.dims().data()));
    kernels::GatherNd(size, batch, tuples, width, bounds.dims().data(), inner, index, a.raw_in(1),
                      a.raw_in(0), a.raw_out(0), a.team());
    return {};
  });
}

}  // namespace

OpDef op_gather_nd() {
  OpDef def;
  def.name = "GatherND";
  def.since = 11;
  def.inputs = {{"data", kAll, 'T'}, {"indices", kI64s}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "batch_dims", .since = 12}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
