// GlobalLpPool: (sum |x|^p)^(1/p) of each channel over all spatial positions. p is an integer from
// 1, default 2. Since opset 2. Floats; p 1 and 2 as reductions.
#include "kernels/pool/generic_pool.h"
#include "kernels/reduce/reduce.h"
#include "ops/core/op_def.h"
#include "ops/core/pool_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.Int("p", 2) < 1) return Invalid("p is {}, should be 1 or more", c.Int("p", 2));
  return InferGlobalPool(c);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& x = c.input(0);
  const int64_t planes = x[0] * x[1], plane = x.Elements(2, x.rank());
  const int64_t p = c.Int("p", 2);
  const DType dtype = c.input_type(0);
  if (p <= 2) {
    const int64_t axes[] = {1};
    const kernels::ReducePlan plan = kernels::MakeReducePlan({planes, plane}, axes);
    const kernels::ReduceOp op = p == 1 ? kernels::ReduceOp::kL1 : kernels::ReduceOp::kL2;
    return MakeKernel(p == 1 ? "reduce_l1" : "reduce_l2", [=](const KernelArgs& a) {
      kernels::Reduce(op, dtype, plan, a.raw_in(0), a.raw_out(0), a.team());
    });
  }
  const kernels::PoolShape shape = GlobalPoolShape(c.input(0));
  return MakeKernel("global_lp_pool_portable", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (IsFloat(kDTypeOf<T>)) {
        kernels::GenericLpPool<double>(shape, a.in<T>(0), a.out<T>(0), p, a.team());
      }
    });
  });
}

}  // namespace

OpDef op_global_lp_pool() {
  OpDef def;
  def.name = "GlobalLpPool";
  def.since = 2;
  def.inputs = {{"X", kFloats, 'T'}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = {{.name = "p"}};
  def.infer = Infer;
  def.cost = GlobalPoolCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
