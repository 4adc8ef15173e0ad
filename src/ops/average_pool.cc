// AveragePool: the mean under a window, NC* layout; padding counts in the divisor with
// count_include_pad. Since opset 1; ceil_mode since 10, dilations since 19.
#include "kernels/pool/generic_pool.h"
#include "ops/core/op_def.h"
#include "ops/core/pool_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::PoolShape shape, PoolShapeOf(c));
  const kernels::PadCount count = c.Int("count_include_pad", 0) != 0 ? kernels::PadCount::kInclude
                                                                     : kernels::PadCount::kExclude;
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) {
    return MakeKernel("average_pool", [=](const KernelArgs& a) {
      kernels::AveragePool(shape, a.in<float>(0), a.out<float>(0), count, a.team());
    });
  }
  return MakeKernel("average_pool_portable", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (IsFloat(kDTypeOf<T>) && !std::is_same_v<T, float>) {
        using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
        kernels::GenericAveragePool<Acc>(shape, a.in<T>(0), a.out<T>(0), count, a.team());
      }
    });
  });
}

}  // namespace

OpDef op_average_pool() {
  OpDef def;
  def.name = "AveragePool";
  def.inputs = {{"X", kFloats, 'T'}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = {{.name = "auto_pad", .type = AttributeType::kString},
                    {.name = "ceil_mode", .since = 10},
                    {.name = "count_include_pad", .since = 7},
                    {.name = "dilations", .type = AttributeType::kInts, .since = 19},
                    {.name = "kernel_shape", .type = AttributeType::kInts, .required = true},
                    {.name = "pads", .type = AttributeType::kInts},
                    {.name = "strides", .type = AttributeType::kInts}};
  def.infer = InferPool;
  def.cost = PoolCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
