// parallax::PoolLast: MaxPool or AveragePool over [batch, spatial..., channels]. Made by passes, f32
// only, one or two spatial dimensions.
//
// Attributes of those operators, and kind: "max" or "average".
#include "kernels/pool/pool_last.h"
#include "ops/core/op_def.h"
#include "ops/core/pool_op.h"

namespace parallax::ops {
namespace {

constexpr kernels::ConvLayout kLast = kernels::ConvLayout::kChannelsLast;

Result<void> Infer(InferContext& c) {
  const std::string_view kind = c.String("kind");
  if (kind != "max" && kind != "average") return Invalid("kind is '{}'", kind);
  if (c.rank(0) > 4) return Invalid("the input has rank {}, should have 3 or 4", c.rank(0));
  return InferPool(c, kLast);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(const kernels::PoolShape shape, PoolShapeOf(c, kLast));
  if (c.String("kind") == "max") {
    return MakeKernel("max_pool_last", [=](const KernelArgs& a) {
      kernels::MaxPoolLast(shape, a.in<float>(0), a.out<float>(0), a.team());
    });
  }
  const kernels::PadCount count = c.Int("count_include_pad", 0) != 0 ? kernels::PadCount::kInclude
                                                                     : kernels::PadCount::kExclude;
  return MakeKernel("average_pool_last", [=](const KernelArgs& a) {
    kernels::AveragePoolLast(shape, a.in<float>(0), a.out<float>(0), count, a.team());
  });
}

}  // namespace

OpDef op_pool_last() {
  OpDef def;
  def.name = "PoolLast";
  def.domain = "parallax";
  def.inputs = {{"X", Bit(DType::kF32), 'T'}};
  def.outputs = {{"Y", Bit(DType::kF32), 'T'}};
  def.attributes = {{.name = "auto_pad", .type = AttributeType::kString},
                    {.name = "ceil_mode"},
                    {.name = "count_include_pad"},
                    {.name = "dilations", .type = AttributeType::kInts},
                    {.name = "kernel_shape", .type = AttributeType::kInts, .required = true},
                    {.name = "kind", .type = AttributeType::kString, .required = true},
                    {.name = "pads", .type = AttributeType::kInts},
                    {.name = "storage_order"},
                    {.name = "strides", .type = AttributeType::kInts}};
  def.infer = Infer;
  def.cost = PoolCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
