// Clip: min(max(x, lo), hi), elementwise. The bounds are attributes until opset 10 and optional
// scalar inputs from 11; where lo > hi the result is hi. Floats, and every integer type since 12.
#include <limits>

#include "ops/core/elementwise.h"
#include "ops/core/scalar.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  for (int i : {1, 2}) {
    if (!c.has_input(i)) continue;
    if (std::optional<Shape> s = c.type(i).shape(); s && s->elements() != 1) {
      return Invalid("bound {} should have one element, has shape {}", i, s->ToString());
    }
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const DType dtype = c.input_type(0);
  if (c.opset() < 12 && !IsFloat(dtype)) {
    return MakeError(ErrorCode::kUnsupported, "{} needs opset 12", Name(dtype));
  }
  const int64_t n = c.input(0).elements();
  if (c.opset() >= 11) {
    return MakeKernel("clip", [=](const KernelArgs& a) {
      kernels::Clip(dtype, a.raw_in(0), a.raw_out(0), n, a.raw_in(1), a.raw_in(2), a.team());
    });
  }
  const Scalar lo =
      ScalarOf(dtype, static_cast<double>(c.Float("min", std::numeric_limits<float>::lowest())));
  const Scalar hi =
      ScalarOf(dtype, static_cast<double>(c.Float("max", std::numeric_limits<float>::max())));
  return MakeKernel("clip", [=](const KernelArgs& a) {
    kernels::Clip(dtype, a.raw_in(0), a.raw_out(0), n, lo.bytes, hi.bytes, a.team());
  });
}

}  // namespace

OpDef op_clip() {
  OpDef def = UnaryDef("Clip", kNumbers, Bind);
  def.inputs = {{"input", kNumbers, 'T'},
                {"min", kNumbers, 'T', Arity::kOptional, 11},
                {"max", kNumbers, 'T', Arity::kOptional, 11}};
  def.attributes = {{.name = "min", .type = AttributeType::kFloat, .until = 10},
                    {.name = "max", .type = AttributeType::kFloat, .until = 10}};
  def.infer = Infer;
  return def;
}

}  // namespace parallax::ops
