// Pow: A to the power B, with broadcasting, in A's type; B may have another type since opset 12.
// Since opset 7 (with this broadcasting). Integer rules: kernels/elementwise/binary.h.
#include <cstring>

#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Cost Estimate(const CostContext& c) {
  return ElementwiseCost(c, /*flops=*/20, OpClass::kTranscendental);
}

Result<void> Infer(InferContext& c) {
  if (c.opset() < 12 && c.dtype(0) != c.dtype(1)) {
    return Invalid("base is {}, exponent {}: unequal types need opset 12", Name(c.dtype(0)),
                   Name(c.dtype(1)));
  }
  return InferBroadcast(c);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const DType base = c.input_type(0), exponent = c.input_type(1);
  const kernels::BroadcastPlan plan = kernels::MakeBroadcastPlan(c.input(0), c.input(1));
  // A constant exponent of 2, or 0.5, is most of what models ask for: normalisation spelled out.
  if (const Tensor* e = c.constant(1); e != nullptr && e->elements() == 1 && base == DType::kF32 &&
                                       exponent == DType::kF32 && c.output(0) == c.input(0)) {
    float value;
    std::memcpy(&value, e->bytes_begin(), sizeof(value));
    if (value == 2.0f) return BindUnary(c, kernels::UnaryOp::kSquare);
  }
  return MakeKernel("pow", [=](const KernelArgs& a) {
    kernels::Pow(base, exponent, plan, a.raw_in(0), a.raw_in(1), a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_pow() {
  OpDef def;
  def.name = "Pow";
  def.inputs = {{"X", kNumbers, 'T'}, {"Y", kNumbers}};
  def.outputs = {{"Z", kNumbers, 'T'}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
