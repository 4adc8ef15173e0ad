// Concat: tensors joined along `axis`. Since opset 4; negative axes since 11.
#include <algorithm>

#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

// Dimensions as values: vectors of extents joined.
void JoinValues(InferContext& c) {
  Dims joined;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const std::optional<Dims> part = c.DimValues(i);
    if (!part) return;
    joined.insert(joined.end(), part->begin(), part->end());
  }
  c.SetDimValues(0, std::move(joined));
}

Result<void> Infer(InferContext& c) {
  int rank = -1;
  for (int i = 0; i < c.num_inputs(); ++i) rank = std::max(rank, c.rank(i));
  if (rank < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), rank));
  Dims out;
  Dim total(0);
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.rank(i) < 0) {
      total = Dim();
      continue;
    }
    const Dims& dims = c.dims(i);
    if (c.rank(i) != rank) {
      return Invalid("input {} has rank {}, another input rank {}", i, c.rank(i), rank);
    }
    if (out.empty()) out = dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (static_cast<int>(d) == axis) continue;
      PX_ASSIGN_OR_RETURN(out[d],
                          MergeDim(out[d], dims[d], fmt::format("extent {} of input {}", d, i)));
    }
    if (total.known() || total.symbol != 0) {
      PX_ASSIGN_OR_RETURN(total, AddDims(total, dims[static_cast<size_t>(axis)]));
    }
  }
  out[static_cast<size_t>(axis)] = total;
  if (rank == 1) JoinValues(c);
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.output(0).rank()));
  std::vector<kernels::CopyPlan> plans;
  int64_t offset = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    plans.push_back(kernels::ConcatPlan(c.input(i), c.output(0), axis, offset));
    offset += c.input(i)[axis];
  }
  const size_t size = SizeOf(c.output_type(0));
  return MakeKernel("concat", [=](const KernelArgs& a) {
    for (size_t i = 0; i < plans.size(); ++i) {
      if (plans[i].elements == 0) continue;
      kernels::StridedCopy(plans[i], size, a.raw_in(static_cast<int>(i)), a.raw_out(0), a.team());
    }
  });
}

}  // namespace

OpDef op_concat() {
  OpDef def;
  def.name = "Concat";
  def.inputs = {{"inputs", kAll, 'T', Arity::kVariadic}};
  def.outputs = {{"concat_result", kAll, 'T'}};
  def.attributes = {{.name = "axis", .required = true}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
