// Squeeze: without the extents of 1 at `axes`, or all of them when no axes are given. A view. Axes:
// an attribute, an input since opset 13.
#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/copy.h"
#include "ops/core/dims.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (std::optional<Dims> values = c.DimValues(0)) c.SetDimValues(0, *values);
  if (c.rank(0) < 0) return {};
  const std::optional<std::vector<int64_t>> axes = AxesOf(c, 1);
  if (!axes) {
    const int64_t count = CountOfInput(c, 1);
    if (count <= 0 || count > c.rank(0)) return {};
    return c.SetUnknownDims(0, c.rank(0) - static_cast<int>(count));
  }
  PX_ASSIGN_OR_RETURN(std::vector<int> gone, NormalizeAxes(*axes, c.rank(0)));
  const bool given = c.has_input(1) || c.has_attribute("axes");
  Dims out;
  for (int i = 0; i < c.rank(0); ++i) {
    const Dim& d = c.dims(0)[static_cast<size_t>(i)];
    if (!given) {
      if (!d.known()) return {};  // it may be 1 or not: not even the rank is known
      if (d.extent != 1) out.push_back(d);
    } else if (!std::binary_search(gone.begin(), gone.end(), i)) {
      out.push_back(d);
    } else if (d.known() && d.extent != 1) {
      return Invalid("axis {} of {} is not 1", i, DimsToString(c.dims(0)));
    }
  }
  return c.SetDims(0, std::move(out));
}

}  // namespace

OpDef op_squeeze() {
  OpDef def;
  def.name = "Squeeze";
  def.inputs = {{"data", kAll, 'T'}, Steers({"axes", kI64s, 0, Arity::kOptional, 13})};
  def.outputs = {{"squeezed", kAll, 'T'}};
  def.attributes = {{.name = "axes", .type = AttributeType::kInts, .until = 12}};
  def.aliases = {{.kind = AliasKind::kView}};
  def.infer = Infer;
  def.bind = BindView;
  return def;
}

}  // namespace parallax::ops
