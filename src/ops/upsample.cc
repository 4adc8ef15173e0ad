// Upsample: the ancestor of Resize, opset 7 (scales as an attribute) to 9 (as an input). Asymmetric
// coordinates, nearest rounds down.
#include "ops/core/op_def.h"
#include "ops/core/resize_op.h"

namespace parallax::ops {
namespace {

Result<void> Check(const NodeContext& c) {
  const std::string_view mode = c.String("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear") {
    return Invalid("mode is '{}'", mode);
  }
  return {};
}

ResizeInputs InputsOf(const NodeContext& c) {
  return {.roi = -1, .scales = c.opset() >= 9 ? 1 : -1, .sizes = -1};
}

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(Check(c));
  return InferResize(c, InputsOf(c), c.node().attributes.Floats("scales"));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  kernels::ResizeOptions options;
  options.mode = c.String("mode", "nearest") == "nearest" ? kernels::ResizeMode::kNearest
                                                          : kernels::ResizeMode::kLinear;
  options.coordinates = kernels::CoordinateMode::kAsymmetric;
  options.nearest = kernels::NearestMode::kFloor;
  return BindResize(c, InputsOf(c), c.node().attributes.Floats("scales"), options);
}

}  // namespace

OpDef op_upsample() {
  OpDef def;
  def.name = "Upsample";
  def.since = 7;
  def.until = 9;
  def.inputs = {{"X", kAll, 'T'}, Steers({"scales", Bit(DType::kF32), 0, Arity::kOne, 9})};
  def.outputs = {{"Y", kAll, 'T'}};
  def.attributes = {
      {.name = "mode", .type = AttributeType::kString},
      {.name = "scales", .type = AttributeType::kFloats, .required = true, .until = 8}};
  def.infer = Infer;
  def.cost = ResizeCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
