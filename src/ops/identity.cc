// Identity: y = x. A view: costs nothing.
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (std::optional<Dims> values = c.DimValues(0)) c.SetDimValues(0, *values);
  return c.SetSameAsInput(0, 0);
}

}  // namespace

OpDef op_identity() {
  OpDef def;
  def.name = "Identity";
  def.inputs = {{"input", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.aliases = {{.kind = AliasKind::kView}};
  def.infer = Infer;
  def.bind = BindView;
  return def;
}

}  // namespace parallax::ops
