// Range: start, start + delta, ... below limit (above it for a negative delta). Since opset 11;
// f32, f64, i16, i32, i64; f16 and bf16 since 27. Their stash_type names a least precision: floats
// are computed in f64 and rounded once whatever it is.
#include "kernels/move/fill.h"
#include "ops/core/cast_op.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<int64_t> Count(DType dtype, const void* start, const void* limit, const void* delta) {
  const int64_t n = kernels::RangeCount(dtype, start, limit, delta);
  if (n < 0 || n > int64_t{1} << 40) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the number of elements is not finite: delta is 0?");
  }
  return n;
}

Result<void> Infer(InferContext& c) {
  if (!IsFloat(DTypeFromOnnx(c.Int("stash_type", 1)))) {
    return Invalid("stash_type is {}, which is not a float type", c.Int("stash_type", 1));
  }
  Tensor values[3];
  bool known = true;
  for (int i = 0; i < 3; ++i) {
    if (std::optional<Shape> s = c.type(i).shape(); s && s->elements() != 1) {
      return Invalid("input {} should have one element, has shape {}", i, s->ToString());
    }
    if (c.constant(i) == nullptr) {
      known = false;
      continue;
    }
    PX_ASSIGN_OR_RETURN(values[i], c.constant(i)->Aligned());
  }
  if (known) {
    PX_ASSIGN_OR_RETURN(int64_t n, Count(c.dtype(0), values[0].bytes_begin(),
                                         values[1].bytes_begin(), values[2].bytes_begin()));
    return c.SetDims(0, {Dim(n)});
  }
  // 0 to a symbol by ones has that symbol's extent.
  const std::optional<std::vector<int64_t>> start = c.ConstantInts(0), delta = c.ConstantInts(2);
  const std::optional<Dims> limit = c.DimValues(1);
  if (start && delta && limit && (*start)[0] == 0 && (*delta)[0] == 1) {
    return c.SetDims(0, {(*limit)[0]});
  }
  return c.SetUnknownDims(0, 1);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const DType dtype = c.input_type(0);
  const int64_t n = c.output(0).elements();
  return MakeKernel("range", [=](const KernelArgs& a) {
    kernels::Range(dtype, a.raw_in(0), a.raw_in(2), n, a.raw_out(0));
  });
}

}  // namespace

OpDef op_range() {
  constexpr TypeSet kTypes = kFloats | Types(DType::kI16, DType::kI32, DType::kI64);
  OpDef def;
  def.name = "Range";
  def.since = 11;
  def.inputs = {Steers({"start", kTypes, 'T'}), Steers({"limit", kTypes, 'T'}),
                Steers({"delta", kTypes, 'T'})};
  def.outputs = {{"output", kTypes, 'T'}};
  def.attributes = {{.name = "stash_type", .since = 27}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
