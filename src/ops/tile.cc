// Tile: the input repeated along every axis. Since opset 6.
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(1) >= 0 && c.rank(1) != 1) return Invalid("repeats should be a vector");
  if (c.rank(0) < 0) return {};
  if (std::optional<std::vector<int64_t>> ints = c.ConstantInts(1)) {
    for (int64_t v : *ints) {
      if (v < 0) return Invalid("repeats has the value {}", v);
    }
  }
  if (std::optional<Shape> length = c.type(1).shape(); length && (*length)[0] != c.rank(0)) {
    return Invalid("repeats has {} values for {} axes", (*length)[0], c.rank(0));
  }
  const std::optional<Dims> repeats = c.DimValues(1);
  if (!repeats) return c.SetUnknownDims(0, c.rank(0));
  Dims out;
  for (size_t i = 0; i < repeats->size(); ++i) {
    PX_ASSIGN_OR_RETURN(Dim d, MulDims(c.dims(0)[i], (*repeats)[i]));
    out.push_back(d);
  }
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape in = c.input(0), out = c.output(0);
  std::vector<int64_t> repeats;
  if (out.elements() > 0) {
    for (int i = 0; i < in.rank(); ++i) repeats.push_back(out[i] / in[i]);
    return BindStridedCopy(c, "tile", kernels::TilePlan(in, repeats));
  }
  return MakeKernel("tile", [](const KernelArgs&) {});
}

}  // namespace

OpDef op_tile() {
  OpDef def;
  def.name = "Tile";
  def.since = 6;
  def.inputs = {{"input", kAll, 'T'}, Steers({"repeats", kI64s})};
  def.outputs = {{"output", kAll, 'T'}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
