#include "ops/core/scatter_op.h"

#include <cstring>

#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/index_check.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(ReductionOf(c));
  PX_RETURN_IF_ERROR(CheckElementIndices(c));
  if (c.rank(1) >= 0 && c.rank(2) >= 0) {
    if (c.rank(1) != c.rank(2)) {
      return Invalid("indices have rank {}, updates rank {}", c.rank(1), c.rank(2));
    }
    for (size_t i = 0; i < c.dims(1).size(); ++i) {
      PX_RETURN_IF_ERROR(
          MergeDim(c.dims(1)[i], c.dims(2)[i], fmt::format("extent {} of indices and updates", i)));
    }
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape data = c.input(0), shape = c.input(1);
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), data.rank()));
  PX_ASSIGN_OR_RETURN(kernels::ScatterReduction reduction, ReductionOf(c));
  const DType index = c.input_type(1), dtype = c.input_type(0);
  const size_t bytes = static_cast<size_t>(data.elements()) * SizeOf(dtype);
  return MakeKernel("scatter_elements", [=](const KernelArgs& a) -> Result<void> {
    PX_RETURN_IF_ERROR(CheckIndices(index, a.raw_in(1), shape.elements(), data[axis]));
    if (bytes > 0 && a.raw_in(0) != a.raw_out(0)) std::memcpy(a.raw_out(0), a.raw_in(0), bytes);
    kernels::ScatterElements(reduction, dtype, data, shape, axis, index, a.raw_in(1), a.raw_in(2),
                             a.raw_out(0), a.team());
    return {};
  });
}

}  // namespace

Result<void> CheckElementIndices(const InferContext& c) {
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.rank(0)));
  if (c.rank(1) < 0) return {};
  if (c.rank(0) != c.rank(1)) {
    return Invalid("data has rank {}, indices rank {}", c.rank(0), c.rank(1));
  }
  for (int i = 0; i < c.rank(0); ++i) {
    const Dim& d = c.dims(0)[static_cast<size_t>(i)];
    const Dim& n = c.dims(1)[static_cast<size_t>(i)];
    if (i != axis && d.known() && n.known() && n.extent > d.extent) {
      return Invalid("extent {} of the indices is {}, above the data's {}", i, n.extent, d.extent);
    }
  }
  return {};
}

Result<kernels::ScatterReduction> ReductionOf(const NodeContext& c) {
  using kernels::ScatterReduction;
  const std::string_view name = c.String("reduction", "none");
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (c.opset() >= 18 && name == "max") return ScatterReduction::kMax;
  if (c.opset() >= 18 && name == "min") return ScatterReduction::kMin;
  return Invalid("reduction is '{}'", name);
}

OpDef ScatterElementsDef(std::string_view name) {
  OpDef def;
  def.name = name;
  def.inputs = {{"data", kAll, 'T'}, {"indices", kIndices}, {"updates", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "axis"},
                    {.name = "reduction", .type = AttributeType::kString, .since = 16}};
  def.aliases = {{.input = 0, .output = 0, .exclusive = true}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
