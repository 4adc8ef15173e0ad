// Unsqueeze: with extents of 1 put in so that they stand at `axes` of the result. A view. Axes: an
// attribute, an input since opset 13.
#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/copy.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) == 0) {
    if (std::optional<Dims> values = c.DimValues(0)) c.SetDimValues(0, *values);
  }
  const std::optional<std::vector<int64_t>> axes = AxesOf(c, 1);
  if (c.rank(0) < 0) return {};
  if (!axes) {
    const int64_t count = CountOfInput(c, 1);
    if (count < 0 || count > kMaxRank) return {};
    return c.SetUnknownDims(0, c.rank(0) + static_cast<int>(count));
  }
  const int rank = c.rank(0) + static_cast<int>(std::min<size_t>(axes->size(), kMaxRank));
  PX_ASSIGN_OR_RETURN(std::vector<int> added, NormalizeAxes(*axes, rank));
  Dims out;
  size_t next = 0;
  for (int i = 0; i < rank; ++i) {
    const bool one = std::binary_search(added.begin(), added.end(), i);
    out.push_back(one ? Dim(1) : c.dims(0)[next++]);
  }
  return c.SetDims(0, std::move(out));
}

}  // namespace

OpDef op_unsqueeze() {
  OpDef def;
  def.name = "Unsqueeze";
  def.inputs = {{"data", kAll, 'T'}, Steers({"axes", kI64s, 0, Arity::kOne, 13})};
  def.outputs = {{"expanded", kAll, 'T'}};
  def.attributes = {{.name = "axes", .type = AttributeType::kInts, .required = true, .until = 12}};
  def.aliases = {{.kind = AliasKind::kView}};
  def.infer = Infer;
  def.bind = BindView;
  return def;
}

}  // namespace parallax::ops
