// Expand: the input repeated to the broadcast of its shape and the given one. Since opset 8.
#include <algorithm>

#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(1) >= 0 && c.rank(1) != 1)
    return Invalid("shape should be a vector, has rank {}", c.rank(1));
  if (std::optional<std::vector<int64_t>> ints = c.ConstantInts(1)) {
    for (int64_t v : *ints) {
      if (v < 0) return Invalid("shape has the extent {}", v);
    }
  }
  const std::optional<Dims> target = c.DimValues(1);
  if (c.rank(0) < 0) return {};
  if (!target) {
    const std::optional<Shape> length = c.type(1).shape();
    if (!length || (*length)[0] > kMaxRank) return {};
    return c.SetUnknownDims(0, std::max(c.rank(0), static_cast<int>((*length)[0])));
  }
  PX_ASSIGN_OR_RETURN(Dims out, BroadcastDimsOf(c.dims(0), *target));
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  return BindStridedCopy(c, "expand", kernels::ExpandPlan(c.input(0), c.output(0)));
}

}  // namespace

OpDef op_expand() {
  OpDef def;
  def.name = "Expand";
  def.since = 8;
  def.inputs = {{"input", kAll, 'T'}, Steers({"shape", kI64s})};
  def.outputs = {{"output", kAll, 'T'}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
