// Resize: every mode, coordinate transformation and rounding of the specification, antialiasing,
// axes, aspect policies. Opset 10 (input, scales), 11 and 13 (roi, scales, sizes), 18 and 19. Empty
// roi, scales or sizes count as left out.
#include "ops/core/op_def.h"
#include "ops/core/resize_op.h"

namespace parallax::ops {
namespace {

ResizeInputs InputsOf(const NodeContext& c) {
  if (c.opset() < 11) return {.roi = -1, .scales = 1, .sizes = -1};
  return {.roi = 1, .scales = 2, .sizes = 3};
}

Result<kernels::ResizeOptions> OptionsOf(const NodeContext& c) {
  kernels::ResizeOptions o;
  const std::string_view mode = c.String("mode", "nearest");
  if (mode == "nearest") {
    o.mode = kernels::ResizeMode::kNearest;
  } else if (mode == "linear") {
    o.mode = kernels::ResizeMode::kLinear;
  } else if (mode == "cubic") {
    o.mode = kernels::ResizeMode::kCubic;
  } else {
    return Invalid("mode is '{}'", mode);
  }
  if (c.opset() < 11) {
    o.coordinates = kernels::CoordinateMode::kAsymmetric;
    o.nearest = kernels::NearestMode::kFloor;
    return o;
  }
  struct Coordinate {
    std::string_view name;
    kernels::CoordinateMode mode;
    int since;
  };
  static constexpr Coordinate kCoordinates[] = {
      {"half_pixel", kernels::CoordinateMode::kHalfPixel, 11},
      {"half_pixel_symmetric", kernels::CoordinateMode::kHalfPixelSymmetric, 19},
      {"pytorch_half_pixel", kernels::CoordinateMode::kPytorchHalfPixel, 11},
      {"align_corners", kernels::CoordinateMode::kAlignCorners, 11},
      {"asymmetric", kernels::CoordinateMode::kAsymmetric, 11},
      {"tf_half_pixel_for_nn", kernels::CoordinateMode::kTfHalfPixelForNn, 11},
      {"tf_crop_and_resize", kernels::CoordinateMode::kTfCropAndResize, 11}};
  const std::string_view wanted = c.String("coordinate_transformation_mode", "half_pixel");
  bool found = false;
  for (const Coordinate& k : kCoordinates) {
    if (k.name != wanted || c.opset() < k.since) continue;
    o.coordinates = k.mode;
    found = true;
  }
  if (!found) return Invalid("coordinate_transformation_mode is '{}'", wanted);
  const std::string_view nearest = c.String("nearest_mode", "round_prefer_floor");
  if (nearest == "round_prefer_floor") {
    o.nearest = kernels::NearestMode::kRoundPreferFloor;
  } else if (nearest == "round_prefer_ceil") {
    o.nearest = kernels::NearestMode::kRoundPreferCeil;
  } else if (nearest == "floor") {
    o.nearest = kernels::NearestMode::kFloor;
  } else if (nearest == "ceil") {
    o.nearest = kernels::NearestMode::kCeil;
  } else {
    return Invalid("nearest_mode is '{}'", nearest);
  }
  o.cubic_coeff_a = c.Float("cubic_coeff_a", -0.75f);
  o.exclude_outside = c.Int("exclude_outside", 0) != 0;
  o.antialias = c.Int("antialias", 0) != 0;
  o.extrapolation_value = c.Float("extrapolation_value", 0.0f);
  return o;
}

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(OptionsOf(c));
  return InferResize(c, InputsOf(c), nullptr);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::ResizeOptions options, OptionsOf(c));
  return BindResize(c, InputsOf(c), nullptr, options);
}

}  // namespace

OpDef op_resize() {
  constexpr TypeSet kF32s = Bit(DType::kF32);
  OpDef def;
  def.name = "Resize";
  def.since = 10;
  def.inputs = {{"X", kAll, 'T'},
                Steers({"scales", kF32s, 0, Arity::kOne, 10, 10}),
                Steers({"roi", kFloats, 0, Arity::kOptional, 11}),
                Steers({"scales", kF32s, 0, Arity::kOptional, 11}),
                Steers({"sizes", kI64s, 0, Arity::kOptional, 11})};
  def.outputs = {{"Y", kAll, 'T'}};
  def.attributes = {
      {.name = "mode", .type = AttributeType::kString},
      {.name = "coordinate_transformation_mode", .type = AttributeType::kString, .since = 11},
      {.name = "cubic_coeff_a", .type = AttributeType::kFloat, .since = 11},
      {.name = "exclude_outside", .since = 11},
      {.name = "extrapolation_value", .type = AttributeType::kFloat, .since = 11},
      {.name = "nearest_mode", .type = AttributeType::kString, .since = 11},
      {.name = "antialias", .since = 18},
      {.name = "axes", .type = AttributeType::kInts, .since = 18},
      {.name = "keep_aspect_ratio_policy", .type = AttributeType::kString, .since = 18}};
  def.infer = Infer;
  def.cost = ResizeCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
