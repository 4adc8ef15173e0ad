// MatMul: NumPy's matmul: the last two axes are matrices, the others broadcast; a vector counts as
// one row (left) or one column (right). f32 on SIMD, a constant right matrix packed once; f16 and
// bf16 computed in f32; f64 and 32- and 64-bit integers (which wrap) portable. Since opset 1.
#include "base/allocator.h"
#include "base/checked.h"
#include "kernels/elementwise/cast.h"
#include "kernels/gemm/generic_gemm.h"
#include "ops/core/mat_mul_op.h"

namespace parallax::ops {
namespace {

// Both operands and the result pass through f32 copies in the workspace.
Result<std::unique_ptr<Kernel>> BindHalf(BindContext& c, const kernels::GemmShape& shape) {
  const DType dtype = c.input_type(0);
  const int64_t na = c.input(0).elements(), nb = c.input(1).elements();
  const int64_t nc = c.output(0).elements();
  const auto room = [](int64_t n) {
    return RoundUp(n * static_cast<int64_t>(sizeof(float)), static_cast<int64_t>(kAlignment));
  };
  const int64_t b_at = room(na), c_at = b_at + room(nb), scratch_at = c_at + room(nc);
  const kernels::GemmPlan plan = kernels::PlanGemm(shape);
  return MakeKernel(
      std::string(plan.name()) + "_via_f32",
      [=](const KernelArgs& args) {
        float* a = reinterpret_cast<float*>(args.workspace());
        float* b = reinterpret_cast<float*>(args.workspace() + b_at);
        float* y = reinterpret_cast<float*>(args.workspace() + c_at);
        kernels::Cast(dtype, DType::kF32, args.raw_in(0), a, na, args.team());
        kernels::Cast(dtype, DType::kF32, args.raw_in(1), b, nb, args.team());
        kernels::Gemm(plan, a, b, y, {}, args.workspace() + scratch_at, args.team());
        kernels::Cast(DType::kF32, dtype, y, args.raw_out(0), nc, args.team());
      },
      static_cast<size_t>(scratch_at) + kernels::GemmWorkspaceBytes(plan, c.team_size()));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const kernels::GemmShape shape = MatMulShape(c.input(0), c.input(1), {});
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) return BindGemm(c, shape, {}, {});
  if (dtype == DType::kF16 || dtype == DType::kBF16) return BindHalf(c, shape);
  return MakeKernel("gemm_portable", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4 && !std::is_same_v<T, float>) {
        // Unsigned sums wrap; signed ones would be undefined.
        if constexpr (std::is_integral_v<T>) {
          kernels::GenericGemm<std::make_unsigned_t<T>>(shape, a.in<T>(0), a.in<T>(1), a.out<T>(0),
                                                        {}, a.team());
        } else {
          kernels::GenericGemm<T>(shape, a.in<T>(0), a.in<T>(1), a.out<T>(0), {}, a.team());
        }
      }
    });
  });
}

}  // namespace

OpDef op_mat_mul() {
  constexpr TypeSet kTypes = kFloats | Types(DType::kI32, DType::kI64, DType::kU32, DType::kU64);
  OpDef def;
  def.name = "MatMul";
  def.inputs = {{"A", kTypes, 'T'}, {"B", kTypes, 'T'}};
  def.outputs = {{"Y", kTypes, 'T'}};
  def.infer = InferMatMul;
  def.cost = MatMulCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
