// Compress: the slices along an axis (or the elements of the flattened input) where the condition
// holds; a condition shorter than the axis drops the rest. Since opset 9. The count is known only
// when it runs.
#include <algorithm>
#include <cstring>

#include "ops/core/axis.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(1) >= 0 && c.rank(1) != 1)
    return Invalid("the condition should be a vector, has rank {}", c.rank(1));
  if (!c.has_attribute("axis")) return c.SetUnknownDims(0, 1);
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.rank(0)));
  Dims out = c.dims(0);
  out[static_cast<size_t>(axis)] = Dim();
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape in = c.has_attribute("axis") ? c.input(0) : Shape{c.input(0).elements()};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), in.rank()));
  const AxisView v = ViewAround(in, axis);
  const int64_t n = std::min(c.input(1)[0], v.axis);
  const size_t run = static_cast<size_t>(v.inner) * SizeOf(c.input_type(0));
  return MakeKernel("compress", [=](const KernelArgs& a) -> Result<void> {
    const bool* keep = a.in<bool>(1);
    Shape out = in;
    out[axis] = std::count(keep, keep + n, true);
    PX_ASSIGN_OR_RETURN(std::byte * to, a.Allocate<std::byte>(0, out));
    if (out.elements() == 0) return {};
    for (int64_t o = 0; o < v.outer; ++o) {
      const std::byte* from = a.in<std::byte>(0) + static_cast<size_t>(o * v.axis) * run;
      for (int64_t i = 0; i < n; ++i) {
        if (!keep[i]) continue;
        std::memcpy(to, from + static_cast<size_t>(i) * run, run);
        to += run;
      }
    }
    return {};
  });
}

}  // namespace

OpDef op_compress() {
  OpDef def;
  def.name = "Compress";
  def.since = 9;
  def.inputs = {{"input", kAll, 'T'}, {"condition", kBools}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "axis"}};
  def.data_dependent = true;
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
