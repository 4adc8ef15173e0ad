// LpPool: (sum |x|^p)^(1/p) under a window, NC* layout; padding counts as zeros. p is an integer
// from 1, default 2. Since opset 2; dilations and ceil_mode since 18. Floats; f32 with p 1 or 2 on
// SIMD.
#include "kernels/pool/generic_pool.h"
#include "ops/core/op_def.h"
#include "ops/core/pool_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.Int("p", 2) < 1) return Invalid("p is {}, should be 1 or more", c.Int("p", 2));
  return InferPool(c);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::PoolShape shape, PoolShapeOf(c));
  const int64_t p = c.Int("p", 2);
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) {
    return MakeKernel("lp_pool", [=](const KernelArgs& a) {
      kernels::LpPool(shape, a.in<float>(0), a.out<float>(0), p, a.team());
    });
  }
  return MakeKernel("lp_pool_portable", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (IsFloat(kDTypeOf<T>) && !std::is_same_v<T, float>) {
        using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
        kernels::GenericLpPool<Acc>(shape, a.in<T>(0), a.out<T>(0), p, a.team());
      }
    });
  });
}

}  // namespace

OpDef op_lp_pool() {
  OpDef def;
  def.name = "LpPool";
  def.since = 2;
  def.inputs = {{"X", kFloats, 'T'}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = {{.name = "auto_pad", .type = AttributeType::kString},
                    {.name = "ceil_mode", .since = 18},
                    {.name = "dilations", .type = AttributeType::kInts, .since = 18},
                    {.name = "kernel_shape", .type = AttributeType::kInts, .required = true},
                    {.name = "p"},
                    {.name = "pads", .type = AttributeType::kInts},
                    {.name = "strides", .type = AttributeType::kInts}};
  def.infer = Infer;
  def.cost = PoolCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
