#include "ops/core/mat_mul_op.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ops/core/dims.h"

namespace parallax::ops {
namespace {

using kernels::Transpose;

// The batch axes of both operands, broadcast against each other; `a` and `b` have rank >= 2.
kernels::GemmBatch BatchOf(const Shape& a, const Shape& b, int64_t c_stride) {
  kernels::GemmBatch batch;
  batch.rank = std::max(a.rank(), b.rank()) - 2;
  int64_t a_stride = a.Elements(a.rank() - 2, a.rank());
  int64_t b_stride = b.Elements(b.rank() - 2, b.rank());
  for (int i = batch.rank - 1; i >= 0; --i) {
    const int ai = i - (batch.rank - (a.rank() - 2)), bi = i - (batch.rank - (b.rank() - 2));
    const int64_t ae = ai >= 0 ? a[ai] : 1, be = bi >= 0 ? b[bi] : 1;
    const int64_t extent = ae == 1 ? be : ae;
    batch.extents[i] = extent;
    batch.a_strides[i] = ae == 1 ? 0 : a_stride;
    batch.b_strides[i] = be == 1 ? 0 : b_stride;
    batch.c_strides[i] = c_stride;
    a_stride *= ae;
    b_stride *= be;
    c_stride *= extent;
  }
  return batch;
}

}  // namespace

Transposes TransposesOf(const NodeContext& c) {
  return {c.Int("transA", 0) != 0 ? Transpose::kYes : Transpose::kNo,
          c.Int("transB", 0) != 0 ? Transpose::kYes : Transpose::kNo};
}

Result<void> InferMatMul(InferContext& c) {
  if (c.rank(0) == 0 || c.rank(1) == 0) return Invalid("an input is a scalar");
  if (c.rank(0) < 0 || c.rank(1) < 0) return {};
  Dims a = c.dims(0), b = c.dims(1);
  const bool row = a.size() == 1, column = b.size() == 1;
  const Transposes transposes = TransposesOf(c);
  if (!row && transposes.a == Transpose::kYes) std::swap(a.back(), a[a.size() - 2]);
  if (!column && transposes.b == Transpose::kYes) std::swap(b.back(), b[b.size() - 2]);
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

Cost MatMulCost(const CostContext& c) {
  const Shape& a = c.input(0);
  const bool transposed = a.rank() > 1 && TransposesOf(c).a == Transpose::kYes;
  const int64_t k = a[a.rank() - (transposed ? 2 : 1)];
  return {.op_class = OpClass::kMatMul,
          .flops = 2.0 * static_cast<double>(c.output(0).elements()) * static_cast<double>(k)};
}

kernels::GemmShape MatMulShape(const Shape& a_in, const Shape& b_in, Transposes transposes) {
  Shape a, b;
  if (a_in.rank() == 1) a.Append(1);
  for (int64_t d : a_in.dims()) a.Append(d);
  for (int64_t d : b_in.dims()) b.Append(d);
  if (b_in.rank() == 1) b.Append(1);
  kernels::GemmShape s;
  s.trans_a = a_in.rank() > 1 ? transposes.a : Transpose::kNo;
  s.trans_b = b_in.rank() > 1 ? transposes.b : Transpose::kNo;
  s.m = a[a.rank() - (s.trans_a == Transpose::kYes ? 1 : 2)];
  s.k = a[a.rank() - (s.trans_a == Transpose::kYes ? 2 : 1)];
  s.n = b[b.rank() - (s.trans_b == Transpose::kYes ? 2 : 1)];
  const int64_t batches = a.Elements(0, a.rank() - 2);
  const bool one_matrix = b.Elements(0, b.rank() - 2) == 1;
  if (one_matrix && (s.trans_a == Transpose::kNo || batches == 1)) {
    s.m *= batches;
  } else {
    s.batch = BatchOf(a, b, s.m * s.n);
  }
  return s;
}

Result<std::unique_ptr<Kernel>> BindGemm(BindContext& c, kernels::GemmShape shape,
                                         const kernels::GemmEpilogue& epilogue,
                                         GemmAddends addends) {
  std::shared_ptr<const void> packed;
  if (c.constant(1) != nullptr && shape.batch.rank == 0) {
    shape.packed = kernels::PackedOperand::kB;
    const int64_t k = shape.k, n = shape.n;
    const Transpose trans = shape.trans_b;
    PX_ASSIGN_OR_RETURN(
        packed, c.Pack(1,
                       fmt::format("gemm_b{} k{} n{} {}", trans == Transpose::kYes ? "t" : "", k, n,
                                   kernels::SimdTargetName()),
                       kernels::PackedBBytes(k, n), [=](const Tensor& source, void* out) {
                         kernels::PackB(k, n, trans, 0, source.bytes_begin(), out);
                       }));
  }
  const kernels::GemmPlan plan = kernels::PlanGemm(shape);
  return MakeKernel(
      plan.name(),
      [=](const KernelArgs& a) {
        kernels::GemmEpilogue e = epilogue;
        if (addends.bias >= 0) e.bias = a.in<float>(addends.bias);
        if (addends.residual >= 0) e.then.residual = a.in<float>(addends.residual);
        const float* b =
            packed != nullptr ? static_cast<const float*>(packed.get()) : a.in<float>(1);
        kernels::Gemm(plan, a.in<float>(0), b, a.out<float>(0), e, a.workspace(), a.team());
      },
      kernels::GemmWorkspaceBytes(plan, c.team_size()));
}

}  // namespace parallax::ops
