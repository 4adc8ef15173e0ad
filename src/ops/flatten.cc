// Flatten: [outer, inner] of the extents before and from `axis` (default 1) on. A view. Since opset
// 1; negative axes since 11.
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) return c.SetUnknownDims(0, 2);
  int64_t axis = c.Int("axis", 1);
  if (axis < -c.rank(0) || axis > c.rank(0)) {
    return Invalid("axis {} is outside a tensor of rank {}", axis, c.rank(0));
  }
  if (axis < 0) axis += c.rank(0);
  const size_t at = static_cast<size_t>(axis);
  PX_ASSIGN_OR_RETURN(Dim outer, ProductOf(c.dims(0), 0, at));
  PX_ASSIGN_OR_RETURN(Dim inner, ProductOf(c.dims(0), at, c.dims(0).size()));
  return c.SetDims(0, {outer, inner});
}

}  // namespace

OpDef op_flatten() {
  OpDef def;
  def.name = "Flatten";
  def.inputs = {{"input", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "axis"}};
  def.aliases = {{.kind = AliasKind::kView}};
  def.infer = Infer;
  def.bind = BindView;
  return def;
}

}  // namespace parallax::ops
