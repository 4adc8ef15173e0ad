// GlobalAveragePool: the average of each channel over all spatial positions. Since opset 1.
#include "kernels/pool/generic_pool.h"
#include "ops/core/op_def.h"
#include "ops/core/pool_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& x = c.input(0);
  const int64_t planes = x[0] * x[1], plane = x.Elements(2, x.rank());
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) {
    return MakeKernel("global_average_pool", [=](const KernelArgs& a) {
      kernels::GlobalAveragePool(planes, plane, a.in<float>(0), a.out<float>(0), a.team());
    });
  }
  const kernels::PoolShape shape = GlobalPoolShape(c.input(0));
  return MakeKernel("global_average_pool_portable", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (IsFloat(kDTypeOf<T>) && !std::is_same_v<T, float>) {
        using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
        kernels::GenericAveragePool<Acc>(shape, a.in<T>(0), a.out<T>(0),
                                         kernels::PadCount::kExclude, a.team());
      }
    });
  });
}

}  // namespace

OpDef op_global_average_pool() {
  OpDef def;
  def.name = "GlobalAveragePool";
  def.inputs = {{"X", kFloats, 'T'}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.infer = InferGlobalPool;
  def.cost = GlobalPoolCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
