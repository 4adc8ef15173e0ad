// EyeLike: ones on diagonal k (default 0), zeros elsewhere, in the shape of a matrix; of its type
// or of `dtype`. Since opset 9.
#include <algorithm>

#include "kernels/move/fill.h"
#include "ops/core/cast_op.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  DType dtype = c.dtype(0);
  if (c.has_attribute("dtype")) {
    dtype = DTypeFromOnnx(c.Int("dtype", 0));
    if (dtype == DType::kUndefined) {
      return MakeError(ErrorCode::kUnsupported, "dtype {} is not supported", c.Int("dtype", 0));
    }
  }
  c.SetDType(0, dtype);
  if (c.rank(0) >= 0 && c.rank(0) != 2)
    return Invalid("the input should be a matrix, has rank {}", c.rank(0));
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const int64_t rows = c.input(0)[0], cols = c.input(0)[1];
  const int64_t k = std::clamp<int64_t>(c.Int("k", 0), -rows, cols);
  const DType dtype = c.output_type(0);
  return MakeKernel("eye_like", [=](const KernelArgs& a) {
    if (rows > 0 && cols > 0) kernels::EyeLike(dtype, rows, cols, k, a.raw_out(0));
  });
}

}  // namespace

OpDef op_eye_like() {
  OpDef def;
  def.name = "EyeLike";
  def.since = 9;
  def.inputs = {{"input", kAll}};
  def.outputs = {{"output", kAll}};
  def.attributes = {{.name = "dtype"}, {.name = "k"}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
