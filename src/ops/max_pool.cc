// MaxPool: the maximum under a window, NC* layout, and optionally its index in the input. Since
// opset 1; indices since 8, dilations and ceil_mode since 10, 8-bit integers since 12. Floats and
// i8, u8.
#include "kernels/pool/generic_pool.h"
#include "ops/core/op_def.h"
#include "ops/core/pool_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::PoolShape shape, PoolShapeOf(c));
  const kernels::IndexOrder order = c.Int("storage_order", 0) != 0
                                        ? kernels::IndexOrder::kColumnMajor
                                        : kernels::IndexOrder::kRowMajor;
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) {
    return MakeKernel("max_pool", [=](const KernelArgs& a) {
      kernels::MaxPool(shape, a.in<float>(0), a.out<float>(0), a.out<int64_t>(1), order, a.team());
    });
  }
  return MakeKernel("max_pool_portable", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, float>) {
        kernels::GenericMaxPool<T>(shape, a.in<T>(0), a.out<T>(0), a.out<int64_t>(1), order,
                                   a.team());
      }
    });
  });
}

}  // namespace

OpDef op_max_pool() {
  constexpr TypeSet kTypes = kFloats | Types(DType::kI8, DType::kU8);
  OpDef def;
  def.name = "MaxPool";
  def.inputs = {{"X", kTypes, 'T'}};
  def.outputs = {{"Y", kTypes, 'T'}, {"Indices", kI64s, 0, Arity::kOptional, 8}};
  def.attributes = {{.name = "auto_pad", .type = AttributeType::kString},
                    {.name = "ceil_mode", .since = 10},
                    {.name = "dilations", .type = AttributeType::kInts, .since = 10},
                    {.name = "kernel_shape", .type = AttributeType::kInts, .required = true},
                    {.name = "pads", .type = AttributeType::kInts},
                    {.name = "storage_order", .since = 8},
                    {.name = "strides", .type = AttributeType::kInts}};
  def.infer = InferPool;
  def.cost = PoolCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
