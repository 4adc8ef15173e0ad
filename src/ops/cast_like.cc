// CastLike: elements converted to the type of the second input, whose values do not matter. Since
// opset 15.
#include "ops/core/cast_op.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) { return c.SetSameAsInput(0, 0); }

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) { return BindCast(c); }

}  // namespace

OpDef op_cast_like() {
  OpDef def;
  def.name = "CastLike";
  def.since = 15;
  def.inputs = {{"input", kAll}, {"target_type", kAll, 'U'}};
  def.outputs = {{"output", kAll, 'U'}};
  def.attributes = {{.name = "saturate", .since = 19},
                    {.name = "round_mode", .type = AttributeType::kString, .since = 24}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
