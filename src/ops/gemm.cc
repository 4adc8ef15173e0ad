// Gemm: alpha A' B' + beta C, with A and B transposed as asked and C broadcast to the result. C may
// be left out since opset 11. f32 on SIMD, a constant B packed once; f64, f16 and bf16 (sums in
// f32) and 32- and 64-bit integers portable (alpha and beta are then rounded to the type). Since
// opset 7.
#include <cmath>

#include "kernels/gemm/generic_gemm.h"
#include "ops/core/dims.h"
#include "ops/core/mat_mul_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if ((c.rank(0) >= 0 && c.rank(0) != 2) || (c.rank(1) >= 0 && c.rank(1) != 2)) {
    return Invalid("A and B should be matrices, have ranks {} and {}", c.rank(0), c.rank(1));
  }
  if (c.rank(0) < 0 || c.rank(1) < 0) return c.SetUnknownDims(0, 2);
  const Transposes transposes = TransposesOf(c);
  const bool ta = transposes.a == kernels::Transpose::kYes;
  const bool tb = transposes.b == kernels::Transpose::kYes;
  const Dims& a = c.dims(0);
  const Dims& b = c.dims(1);
  PX_RETURN_IF_ERROR(MergeDim(a[ta ? 0 : 1], b[tb ? 1 : 0], "inner extents of A and B"));
  const Dims out = {a[ta ? 1 : 0], b[tb ? 0 : 1]};
  if (c.has_input(2) && c.rank(2) >= 0) {
    PX_ASSIGN_OR_RETURN(Dims joint, BroadcastDimsOf(out, c.dims(2)));
    bool fits = joint.size() == 2;
    for (size_t i = 0; fits && i < 2; ++i) {
      fits = !joint[i].known() || !out[i].known() || joint[i].extent == out[i].extent;
    }
    if (!fits) {
      return Invalid("C {} does not broadcast to {}", DimsToString(c.dims(2)), DimsToString(out));
    }
  }
  return c.SetDims(0, out);
}

// Strides of C against the [m, n] result.
struct Addend {
  int64_t row = 0, column = 0;
};
Addend AddendOf(const Shape& c) {
  const int64_t columns = c.rank() >= 1 ? c[c.rank() - 1] : 1;
  const int64_t rows = c.rank() >= 2 ? c[c.rank() - 2] : 1;
  return {rows > 1 ? columns : 0, columns > 1 ? 1 : 0};
}

Result<std::unique_ptr<Kernel>> BindF32(BindContext& c, const kernels::GemmShape& shape) {
  kernels::GemmEpilogue epilogue;
  epilogue.alpha = c.Float("alpha", 1.0f);
  epilogue.beta = c.Float("beta", 1.0f);
  const bool has_c = c.has_input(2);
  const Addend addend = has_c ? AddendOf(c.input(2)) : Addend{};
  // A row, a column or one value go in as a bias, a whole matrix as a residual.
  const bool matrix = addend.row != 0 && addend.column != 0;
  epilogue.bias_axis = addend.column != 0 ? kernels::BiasAxis::kColumn
                       : addend.row != 0  ? kernels::BiasAxis::kRow
                                          : kernels::BiasAxis::kScalar;
  return BindGemm(c, shape, epilogue,
                  {.bias = has_c && !matrix ? 2 : -1, .residual = has_c && matrix ? 2 : -1});
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const kernels::GemmShape shape = MatMulShape(c.input(0), c.input(1), TransposesOf(c));
  const DType dtype = c.input_type(0);
  if (dtype == DType::kF32) return BindF32(c, shape);
  const float alpha = c.Float("alpha", 1.0f), beta = c.Float("beta", 1.0f);
  const bool has_c = c.has_input(2);
  const Addend addend = has_c ? AddendOf(c.input(2)) : Addend{};
  return MakeKernel("gemm_portable", [=](const KernelArgs& a) {
    const auto run = [&]<class Acc, class T>() {
      kernels::GenericGemmArgs<Acc, T, T, T> args;
      // Integers: the scale is rounded towards zero as a signed number, then wraps.
      if constexpr (std::is_integral_v<Acc>) {
        args.alpha = static_cast<Acc>(static_cast<int64_t>(alpha));
        args.beta = static_cast<Acc>(static_cast<int64_t>(beta));
      } else {
        args.alpha = static_cast<Acc>(alpha);
        args.beta = static_cast<Acc>(beta);
      }
      if (has_c) {
        args.addend = a.in<T>(2);
        args.addend_row = addend.row;
        args.addend_column = addend.column;
      }
      kernels::GenericGemm<Acc>(shape, a.in<T>(0), a.in<T>(1), a.out<T>(0), args, a.team());
    };
    DispatchType(dtype, [&]<class T>() {
      if constexpr (std::is_same_v<T, double>) {
        run.template operator()<double, double>();
      } else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
        run.template operator()<float, T>();
      } else if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
        run.template operator()<std::make_unsigned_t<T>, T>();
      }
    });
  });
}

}  // namespace

OpDef op_gemm() {
  constexpr TypeSet kTypes = kFloats | Types(DType::kI32, DType::kI64, DType::kU32, DType::kU64);
  OpDef def;
  def.name = "Gemm";
  def.inputs = {{"A", kTypes, 'T'}, {"B", kTypes, 'T'}, {"C", kTypes, 'T', Arity::kOptional}};
  def.outputs = {{"Y", kTypes, 'T'}};
  def.attributes = {{.name = "alpha", .type = AttributeType::kFloat},
                    {.name = "beta", .type = AttributeType::kFloat},
                    {.name = "transA"},
                    {.name = "transB"}};
  def.infer = Infer;
  def.cost = MatMulCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
