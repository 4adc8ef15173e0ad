// ReverseSequence: the first lengths[b] steps of each sequence in reverse order. Since opset 10;
// batch and time are axes 0 and 1 in either order.
#include "kernels/move/fill.h"
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const int64_t batch = c.Int("batch_axis", 1), time = c.Int("time_axis", 0);
  if (batch + time != 1 || batch * time != 0) {
    return Invalid("batch_axis is {} and time_axis {}, should be 0 and 1 in some order", batch,
                   time);
  }
  if (c.rank(0) >= 0 && c.rank(0) < 2) {
    return Invalid("the input should have rank 2 or more, has {}", c.rank(0));
  }
  if (c.rank(1) >= 0 && c.rank(1) != 1) return Invalid("sequence_lens should be a vector");
  if (c.rank(0) >= 0 && c.rank(1) >= 0) {
    PX_RETURN_IF_ERROR(MergeDim(c.dims(0)[static_cast<size_t>(batch)], c.dims(1)[0],
                                "sequences and sequence_lens"));
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& x = c.input(0);
  const kernels::BatchAxis axis =
      c.Int("batch_axis", 1) == 0 ? kernels::BatchAxis::kFirst : kernels::BatchAxis::kSecond;
  const int64_t batch = axis == kernels::BatchAxis::kFirst ? x[0] : x[1];
  const int64_t time = axis == kernels::BatchAxis::kFirst ? x[1] : x[0];
  const int64_t inner = x.Elements(2, x.rank());
  const size_t size = SizeOf(c.input_type(0));
  return MakeKernel("reverse_sequence", [=](const KernelArgs& a) -> Result<void> {
    const int64_t* lengths = a.in<int64_t>(1);
    for (int64_t b = 0; b < batch; ++b) {
      if (lengths[b] < 0 || lengths[b] > time) {
        return MakeError(ErrorCode::kInvalidArgument, "sequence {} has length {} of {}", b,
                         lengths[b], time);
      }
    }
    kernels::ReverseSequence(size, axis, batch, time, inner, lengths, a.raw_in(0), a.raw_out(0),
                             a.team());
    return {};
  });
}

}  // namespace

OpDef op_reverse_sequence() {
  OpDef def;
  def.name = "ReverseSequence";
  def.since = 10;
  def.inputs = {{"input", kAll, 'T'}, {"sequence_lens", kI64s}};
  def.outputs = {{"Y", kAll, 'T'}};
  def.attributes = {{.name = "batch_axis"}, {.name = "time_axis"}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
