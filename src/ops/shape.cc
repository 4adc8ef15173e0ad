// Shape: the extents of the input as an int64 vector; `start` and `end` take a part (opset 15).
// Needs no data: once the input's shape is known the result is a constant.
#include <algorithm>

#include "ops/core/bind_context.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

struct Range {
  int64_t begin, end;
};

Range RangeOf(const NodeContext& c, int rank) {
  const auto clamp = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = clamp(c.Int("start", 0));
  return {begin, std::max(begin, clamp(c.Int("end", rank)))};
}

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) return c.SetUnknownDims(0, 1);
  const Range r = RangeOf(c, c.rank(0));
  const Dims& dims = c.dims(0);
  c.SetDimValues(0, Dims(dims.begin() + r.begin, dims.begin() + r.end));
  return c.SetDims(0, {Dim(r.end - r.begin)});
}

Cost Estimate(const CostContext&) { return {.op_class = OpClass::kMove}; }

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Range r = RangeOf(c, c.input(0).rank());
  const Shape shape = c.input(0);
  return MakeKernel("shape", [=](const KernelArgs& a) {
    for (int64_t i = r.begin; i < r.end; ++i) {
      a.out<int64_t>(0)[i - r.begin] = shape[static_cast<int>(i)];
    }
  });
}

}  // namespace

OpDef op_shape() {
  OpDef def;
  def.name = "Shape";
  def.inputs = {{"data", kAll}};
  def.outputs = {{"shape", kI64s}};
  def.attributes = {{.name = "start", .since = 15}, {.name = "end", .since = 15}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
