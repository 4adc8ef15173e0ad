// Where: X where the condition holds, else Y, with three-way broadcasting. Since opset 9.
#include "kernels/elementwise/where.h"
#include "ops/core/copy.h"
#include "ops/core/elementwise.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const kernels::BroadcastPlan3 plan =
      kernels::MakeBroadcastPlan(c.input(0), c.input(1), c.input(2));
  const size_t size = SizeOf(c.output_type(0));
  return MakeKernel("where", [=](const KernelArgs& a) {
    kernels::Where(size, plan, a.in<bool>(0), a.raw_in(1), a.raw_in(2), a.raw_out(0), a.team());
  });
}

}  // namespace

OpDef op_where() {
  OpDef def;
  def.name = "Where";
  def.since = 9;
  def.inputs = {{"condition", kBools}, {"X", kAll, 'T'}, {"Y", kAll, 'T'}};
  def.outputs = {{"output", kAll, 'T'}};
  def.infer = InferBroadcast;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
