// Cast: elements converted to the type `to`. Rules where ONNX leaves them open:
// kernels/elementwise/ cast.h. Since opset 6; strings and 8-bit and 4-bit floats are refused.
// `saturate` and `round_mode` concern 8-bit floats only.
#include "kernels/elementwise/cast.h"
#include "ops/core/cast_op.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const DType to = DTypeFromOnnx(c.Int("to", 0));
  if (to == DType::kUndefined) {
    return MakeError(ErrorCode::kUnsupported, "cannot convert to ONNX type number {}",
                     c.Int("to", 0));
  }
  c.SetDType(0, to);
  if (to == DType::kI64 || to == DType::kI32) {
    if (std::optional<Dims> values = c.DimValues(0)) c.SetDimValues(0, *values);
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) { return BindCast(c); }

}  // namespace

OpDef op_cast() {
  OpDef def;
  def.name = "Cast";
  def.inputs = {{"input", kAll}};
  def.outputs = {{"output", kAll}};
  def.attributes = {{.name = "to", .required = true},
                    {.name = "saturate", .since = 19},
                    {.name = "round_mode", .type = AttributeType::kString, .since = 24}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
