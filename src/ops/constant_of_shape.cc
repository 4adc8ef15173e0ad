// ConstantOfShape: a tensor of the given shape, every element `value` (default one f32 zero). Since
// opset 9.
#include <cstring>

#include "kernels/move/fill.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"
#include "ops/core/scalar.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const Tensor* value = c.node().attributes.TensorValue("value");
  if (value != nullptr && value->elements() != 1) {
    return Invalid("value should have one element, has {}", value->elements());
  }
  c.SetDType(0, value == nullptr ? DType::kF32 : value->dtype());
  if (c.rank(0) >= 0 && c.rank(0) != 1) {
    return Invalid("the shape should be a vector, has rank {}", c.rank(0));
  }
  if (std::optional<std::vector<int64_t>> ints = c.ConstantInts(0)) {
    for (int64_t v : *ints) {
      if (v < 0) return Invalid("the shape has the extent {}", v);
    }
  }
  if (std::optional<Dims> dims = c.DimValues(0)) return c.SetDims(0, *dims);
  const std::optional<Shape> length = c.type(0).shape();
  if (!length || (*length)[0] > kMaxRank) return {};
  return c.SetUnknownDims(0, static_cast<int>((*length)[0]));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  Scalar element;
  const size_t size = SizeOf(c.output_type(0));
  if (const Tensor* value = c.node().attributes.TensorValue("value")) {
    std::memcpy(element.bytes, value->bytes_begin(), size);
  }
  const int64_t n = c.output(0).elements();
  return MakeKernel("fill", [=](const KernelArgs& a) {
    kernels::Fill(size, element.bytes, a.raw_out(0), n, a.team());
  });
}

}  // namespace

OpDef op_constant_of_shape() {
  OpDef def;
  def.name = "ConstantOfShape";
  def.since = 9;
  def.inputs = {Steers({"input", kI64s})};
  def.outputs = {{"output", kAll}};
  def.attributes = {{.name = "value", .type = AttributeType::kTensor}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
