// BatchNormalization, inference: (x - mean) / sqrt(var + epsilon) * scale + bias, one set of values
// a channel (axis 1). Since opset 7; training (training_mode = 1, or the extra outputs of old
// opsets) and spatial = 0 (opset 7 and 8) are refused.
#include "kernels/norm/channel_norm.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.Int("training_mode", 0) != 0) {
    return MakeError(ErrorCode::kUnsupported, "training_mode = 1 is not supported");
  }
  for (int o = 1; o < c.num_outputs(); ++o) {
    if (c.has_output(o)) {
      return MakeError(ErrorCode::kUnsupported, "output {} exists only in training", o);
    }
  }
  if (c.Int("spatial", 1) == 0) {
    return MakeError(ErrorCode::kUnsupported, "spatial = 0 is not supported");
  }
  if (c.opset() < 14 && (c.dtype(1) != c.dtype(0) || c.dtype(3) != c.dtype(0))) {
    return Invalid("inputs should all be {}", Name(c.dtype(0)));
  }
  // A vector counts as [N, 1].
  if (c.rank(0) >= 2) {
    for (int i = 1; i < 5; ++i) PX_RETURN_IF_ERROR(CheckChannelParam(c, i));
  } else if (c.rank(0) >= 0) {
    for (int i = 1; i < 5; ++i) {
      const std::optional<Shape> shape = c.type(i).shape();
      if (c.rank(0) == 0 || (shape && shape->elements() != 1)) {
        return Invalid("input {} should be one value a channel", i);
      }
    }
  }
  return c.SetSameAsInput(0, 0);
}

Cost Estimate(const CostContext& c) {
  return {.op_class = OpClass::kNormalize,
          .flops = 2.0 * static_cast<double>(c.input(0).elements())};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& shape = c.input(0);
  const int64_t batch = shape[0], channels = shape.rank() > 1 ? shape[1] : 1;
  const int64_t spatial = shape.rank() > 1 ? shape.Elements(2, shape.rank()) : 1;
  const float epsilon = c.Float("epsilon", 1e-5f);
  const DType dtype = c.input_type(0), param = c.input_type(1), stat = c.input_type(3);
  return MakeKernel("batch_norm", [=](const KernelArgs& a) {
    kernels::BatchNorm(dtype, param, stat, batch, channels, spatial, a.raw_in(0), a.raw_in(1),
                       a.raw_in(2), a.raw_in(3), a.raw_in(4), epsilon, a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_batch_normalization() {
  OpDef def;
  def.name = "BatchNormalization";
  def.since = 7;
  def.inputs = {{"X", kFloats, 'T'},
                {"scale", kFloats, 'P'},
                {"B", kFloats, 'P'},
                {"input_mean", kFloats, 'S'},
                {"input_var", kFloats, 'S'}};
  def.outputs = {{"Y", kFloats, 'T'},
                 {"running_mean", kFloats, 'S', Arity::kOptional},
                 {"running_var", kFloats, 'S', Arity::kOptional},
                 {"saved_mean", kFloats, 'S', Arity::kOptional, 0, 13},
                 {"saved_var", kFloats, 'S', Arity::kOptional, 0, 13}};
  def.attributes = {{.name = "epsilon", .type = AttributeType::kFloat},
                    {.name = "momentum", .type = AttributeType::kFloat},
                    {.name = "spatial", .until = 8},
                    {.name = "training_mode", .since = 14}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
