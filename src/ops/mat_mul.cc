// MatMul: NumPy's matmul: the last two axes are matrices, the others broadcast; a vector counts as
// one row (left) or one column (right). f32 on SIMD, a constant right matrix packed once; f16 and
// bf16 computed in f32; f64 and 32- and 64-bit integers (which wrap) portable. Since opset 1.
#include "base/allocator.h"
#include "base/checked.h"
#include "kernels/elementwise/cast.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/generic_gemm.h"
#include "ops/core/bind_context.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) == 0 || c.rank(1) == 0) return Invalid("an input is a scalar");
  if (c.rank(0) < 0 || c.rank(1) < 0) return {};
  Dims a = c.dims(0), b = c.dims(1);
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Dim(1));
  if (column) b.push_back(Dim(1));
  Result<Dim> k = MergeDim(a.back(), b[b.size() - 2], "inner extents");
  if (!k.ok()) {
    return Invalid("cannot multiply {} by {}", DimsToString(c.dims(0)), DimsToString(c.dims(1)));
  }
  PX_ASSIGN_OR_RETURN(Dims out,
                      BroadcastDimsOf(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2)));
  if (!row) out.push_back(a[a.size() - 2]);
  if (!column) out.push_back(b.back());
  return c.SetDims(0, std::move(out));
}

Cost Estimate(const CostContext& c) {
  const Shape& a = c.input(0);
  return {.op_class = OpClass::kMatMul,
          .flops = 2.0 * static_cast<double>(c.output(0).elements()) *
                   static_cast<double>(a[a.rank() - 1])};
}

// The product as one batched GEMM. Where the right side is one matrix, the left side's batches are
// simply more rows.
kernels::GemmShape ShapeOf(const Shape& a_in, const Shape& b_in) {
  Shape a, b;
  if (a_in.rank() == 1) a.Append(1);
  for (int64_t d : a_in.dims()) a.Append(d);
  for (int64_t d : b_in.dims()) b.Append(d);
  if (b_in.rank() == 1) b.Append(1);
  kernels::GemmShape s;
  s.m = a[a.rank() - 2];
  s.k = a[a.rank() - 1];
  s.n = b[b.rank() - 1];
  if (b.Elements(0, b.rank() - 2) == 1) {
    s.m *= a.Elements(0, a.rank() - 2);
    return s;
  }
  const int batch = std::max(a.rank(), b.rank()) - 2;
  s.batch.rank = batch;
  int64_t a_stride = s.m * s.k, b_stride = s.k * s.n, c_stride = s.m * s.n;
  for (int i = batch - 1; i >= 0; --i) {
    const int ai = i - (batch - (a.rank() - 2)), bi = i - (batch - (b.rank() - 2));
    const int64_t ae = ai >= 0 ? a[ai] : 1, be = bi >= 0 ? b[bi] : 1;
    const int64_t extent = ae == 1 ? be : ae;
    s.batch.extents[i] = extent;
    s.batch.a_strides[i] = ae == 1 ? 0 : a_stride;
    s.batch.b_strides[i] = be == 1 ? 0 : b_stride;
    s.batch.c_strides[i] = c_stride;
    a_stride *= ae;
    b_stride *= be;
    c_stride *= extent;
  }
  return s;
}

Result<std::unique_ptr<Kernel>> BindF32(BindContext& c, kernels::GemmShape shape) {
  std::shared_ptr<const void> packed;
  if (c.constant(1) != nullptr && shape.batch.rank == 0) {
    shape.packed = kernels::PackedOperand::kB;
    const int64_t k = shape.k, n = shape.n;
    PX_ASSIGN_OR_RETURN(
        packed, c.Pack(1, fmt::format("gemm_b k{} n{} {}", k, n, kernels::SimdTargetName()),
                       kernels::PackedBBytes(k, n), [k, n](const Tensor& source, void* out) {
                         kernels::PackB(k, n, kernels::Transpose::kNo, 0, source.bytes_begin(),
                                        out);
                       }));
  }
  const kernels::GemmPlan plan = kernels::PlanGemm(shape);
  return MakeKernel(
      plan.name(),
      [=](const KernelArgs& a) {
        const float* b =
            packed != nullptr ? static_cast<const float*>(packed.get()) : a.in<float>(1);
        kernels::Gemm(plan, a.in<float>(0), b, a.out<float>(0), {}, a.workspace(), a.team());
      },
      kernels::GemmWorkspaceBytes(plan, c.team_size()));
}

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
  const kernels::GemmShape shape = ShapeOf(c.input(0), c.input(1));
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) return BindF32(c, shape);
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
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
