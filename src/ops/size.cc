// Size: the number of elements as an int64 scalar. Since opset 1. Needs no data.
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) >= 0) {
    PX_ASSIGN_OR_RETURN(Dim n, ProductOf(c.dims(0), 0, c.dims(0).size()));
    c.SetDimValues(0, {n});
  }
  return c.SetDims(0, {});
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const int64_t n = c.input(0).elements();
  return MakeKernel("size", [=](const KernelArgs& a) { *a.out<int64_t>(0) = n; });
}

}  // namespace

OpDef op_size() {
  OpDef def;
  def.name = "Size";
  def.inputs = {{"data", kAll}};
  def.outputs = {{"size", kI64s}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
