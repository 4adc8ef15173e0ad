// Trilu: the upper (default) or lower triangle of the last two axes, zeros elsewhere, from diagonal
// k (default 0). Since opset 14.
#include <algorithm>

#include "kernels/move/fill.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) >= 0 && c.rank(0) < 2) {
    return Invalid("the input should have rank 2 or more, has {}", c.rank(0));
  }
  if (c.has_input(1)) {
    if (std::optional<Shape> s = c.type(1).shape(); s && s->elements() != 1) {
      return Invalid("k should have one element, has shape {}", s->ToString());
    }
  }
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& x = c.input(0);
  const int rank = x.rank();
  const int64_t batch = x.Elements(0, rank - 2), rows = x[rank - 2], cols = x[rank - 1];
  const size_t size = SizeOf(c.input_type(0));
  const kernels::Triangle triangle =
      c.Int("upper", 1) != 0 ? kernels::Triangle::kUpper : kernels::Triangle::kLower;
  return MakeKernel("trilu", [=](const KernelArgs& a) {
    const int64_t k = a.raw_in(1) != nullptr ? *a.in<int64_t>(1) : 0;
    // Beyond the matrix every diagonal is the same.
    const int64_t bounded = std::clamp<int64_t>(k, -rows, cols);
    kernels::Trilu(triangle, size, batch, rows, cols, bounded, a.raw_in(0), a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_trilu() {
  OpDef def;
  def.name = "Trilu";
  def.since = 14;
  def.inputs = {{"input", kAll, 'T'}, {"k", kI64s, 0, Arity::kOptional}};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "upper"}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
