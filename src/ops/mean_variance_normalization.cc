// MeanVarianceNormalization: (x - mean) / sqrt(var + 1e-9) over axes (default 0, 2 and 3). Since
// opset 9. Computed as ONNX's function body says, in f32 (f64 for f64).
#include <cmath>

#include "base/allocator.h"
#include "base/checked.h"
#include "kernels/elementwise/binary.h"
#include "kernels/reduce/reduce.h"
#include "ops/core/norm_op.h"

namespace parallax::ops {
namespace {

std::vector<int64_t> Axes(const NodeContext& c) {
  const std::vector<int64_t>* axes = c.Ints("axes");
  return axes != nullptr ? *axes : std::vector<int64_t>{0, 2, 3};
}

Result<void> Infer(InferContext& c) {
  if (c.rank(0) >= 0) PX_RETURN_IF_ERROR(NormalizeAxes(Axes(c), c.rank(0)));
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const DType dtype = c.input_type(0);
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return MakeError(ErrorCode::kUnsupported, "not implemented for {}", Name(dtype));
  }
  const Shape shape = c.input(0);
  PX_ASSIGN_OR_RETURN(std::vector<int> axes, NormalizeAxes(Axes(c), shape.rank()));
  Shape kept = shape;
  for (int a : axes) kept[a] = 1;
  const std::vector<int64_t> reduced(axes.begin(), axes.end());
  const kernels::ReducePlan reduce = kernels::MakeReducePlan(shape, reduced);
  const kernels::BroadcastPlan spread = kernels::MakeBroadcastPlan(shape, kept);
  const size_t bytes = static_cast<size_t>(RoundUp(
      kept.elements() * static_cast<int64_t>(SizeOf(dtype)), static_cast<int64_t>(kAlignment)));
  return MakeKernel(
      "mean_variance",
      [=](const KernelArgs& a) {
        using kernels::BinaryOp;
        void* y = a.raw_out(0);
        std::byte* stat = a.workspace();
        kernels::Reduce(kernels::ReduceOp::kMean, dtype, reduce, a.raw_in(0), stat, a.team());
        kernels::Binary(BinaryOp::kSub, dtype, spread, a.raw_in(0), stat, y, a.team());
        // The mean square of the centred values is the variance.
        kernels::Reduce(kernels::ReduceOp::kSumSquare, dtype, reduce, y, stat, a.team());
        DispatchType(dtype, [&]<class T>() {
          if constexpr (std::is_floating_point_v<T>) {
            T* s = reinterpret_cast<T*>(stat);
            for (int64_t i = 0; i < kept.elements(); ++i) {
              s[i] = std::sqrt(s[i] / static_cast<T>(reduce.per_output) + static_cast<T>(1e-9));
            }
          }
        });
        kernels::Binary(BinaryOp::kDiv, dtype, spread, y, stat, y, a.team());
      },
      bytes);
}

}  // namespace

OpDef op_mean_variance_normalization() {
  OpDef def;
  def.name = "MeanVarianceNormalization";
  def.since = 9;
  def.inputs = {{"X", kFloats, 'T'}};
  def.outputs = {{"Y", kFloats, 'T'}};
  def.attributes = {{.name = "axes", .type = AttributeType::kInts}};
  def.infer = Infer;
  def.cost = NormCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
