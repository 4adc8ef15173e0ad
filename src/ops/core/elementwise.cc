#include "ops/core/elementwise.h"

#include <vector>

#include "kernels/move/strided_copy.h"
#include "ops/core/dims.h"
#include "ops/core/scalar.h"

namespace parallax::ops {

using kernels::BinaryOp;
using kernels::BroadcastPlan;
using kernels::UnaryOp;
using kernels::UnaryParams;

Result<void> InferSameAsFirst(InferContext& c) { return c.SetSameAsInput(0, 0); }

Result<void> InferBroadcast(InferContext& c) {
  Dims dims;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has_input(i)) continue;
    if (c.rank(i) < 0) return {};
    PX_ASSIGN_OR_RETURN(dims, BroadcastDimsOf(dims, c.dims(i)));
  }
  return c.SetDims(0, std::move(dims));
}

Result<void> InferDimArithmetic(InferContext& c, Result<Dim> (*combine)(const Dim&, const Dim&)) {
  PX_RETURN_IF_ERROR(InferBroadcast(c));
  if (!IsInteger(c.dtype(0)) || c.rank(0) < 0 || c.rank(0) > 1 || c.rank(1) < 0 || c.rank(1) > 1) {
    return {};
  }
  const std::optional<Dims> a = c.DimValues(0), b = c.DimValues(1);
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return {};
  Dims values(a->size() == 1 ? b->size() : a->size());
  for (size_t i = 0; i < values.size(); ++i) {
    Result<Dim> d = combine((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    if (!d.ok()) return {};  // wraps when it runs, which no extent does
    values[i] = *d;
  }
  c.SetDimValues(0, std::move(values));
  return {};
}

Cost ElementwiseCost(const CostContext& c, double flops, OpClass op_class) {
  Cost cost;
  cost.op_class = op_class;
  cost.flops = flops * static_cast<double>(c.output(0).elements());
  return cost;
}

Result<std::unique_ptr<Kernel>> BindUnary(BindContext& c, UnaryOp op, const UnaryParams& params) {
  const DType dtype = c.input_type(0);
  if (!kernels::UnarySupports(op, dtype)) {
    return MakeError(ErrorCode::kUnsupported, "not implemented for {}", Name(dtype));
  }
  const int64_t n = c.input(0).elements();
  return MakeKernel("unary", [=](const KernelArgs& a) {
    kernels::Unary(op, dtype, a.raw_in(0), a.raw_out(0), n, params, a.team());
  });
}

Result<std::unique_ptr<Kernel>> BindBinary(BindContext& c, BinaryOp op) {
  const DType dtype = c.input_type(0);
  if (!kernels::BinarySupports(op, dtype)) {
    return MakeError(ErrorCode::kUnsupported, "not implemented for {}", Name(dtype));
  }
  const BroadcastPlan plan = kernels::MakeBroadcastPlan(c.input(0), c.input(1));
  const bool divides = op == BinaryOp::kDiv || op == BinaryOp::kMod || op == BinaryOp::kFmod;
  if (divides && IsInteger(dtype) && c.output(0).elements() > 0) {
    const int64_t divisors = c.input(1).elements();
    return MakeKernel("binary", [=](const KernelArgs& a) -> Result<void> {
      if (kernels::HasZero(dtype, a.raw_in(1), divisors)) {
        return MakeError(ErrorCode::kInvalidArgument, "integer division by zero");
      }
      kernels::Binary(op, dtype, plan, a.raw_in(0), a.raw_in(1), a.raw_out(0), a.team());
      return {};
    });
  }
  return MakeKernel("binary", [=](const KernelArgs& a) {
    kernels::Binary(op, dtype, plan, a.raw_in(0), a.raw_in(1), a.raw_out(0), a.team());
  });
}

Result<std::unique_ptr<Kernel>> BindVariadic(BindContext& c, BinaryOp op, bool mean) {
  const DType dtype = c.input_type(0);
  if (!kernels::BinarySupports(op, dtype)) {
    return MakeError(ErrorCode::kUnsupported, "not implemented for {}", Name(dtype));
  }
  const Shape& shape = c.output(0);
  const int inputs = c.num_inputs();
  // Step i computes out = op(out, input i). The first two inputs are taken together where they
  // already span the output; otherwise input 0 is spread over the output first.
  const bool pair =
      inputs > 1 && kernels::MakeBroadcastPlan(c.input(0), c.input(1)).elements == shape.elements();
  std::vector<BroadcastPlan> plans;
  if (pair) plans.push_back(kernels::MakeBroadcastPlan(c.input(0), c.input(1)));
  for (int i = pair ? 2 : 1; i < inputs; ++i) {
    plans.push_back(kernels::MakeBroadcastPlan(shape, c.input(i)));
  }
  const kernels::CopyPlan spread = kernels::ExpandPlan(c.input(0), shape);
  const BroadcastPlan scale = kernels::MakeBroadcastPlan(shape, Shape{});
  const Scalar count = ScalarOf(dtype, inputs);
  return MakeKernel("variadic", [=](const KernelArgs& a) {
    void* out = a.raw_out(0);
    int next = 1;
    if (pair) {
      kernels::Binary(op, dtype, plans[0], a.raw_in(0), a.raw_in(1), out, a.team());
      next = 2;
    } else {
      kernels::StridedCopy(spread, SizeOf(dtype), a.raw_in(0), out, a.team());
    }
    for (int i = next; i < inputs; ++i) {
      const BroadcastPlan& plan = plans[static_cast<size_t>(i - 1)];
      kernels::Binary(op, dtype, plan, out, a.raw_in(i), out, a.team());
    }
    if (mean && inputs > 1) {
      kernels::Binary(BinaryOp::kDiv, dtype, scale, out, count.bytes, out, a.team());
    }
  });
}

OpDef UnaryDef(std::string_view name, TypeSet types,
               Result<std::unique_ptr<Kernel>> (*bind)(BindContext&),
               Cost (*cost)(const CostContext&)) {
  OpDef def;
  def.name = name;
  def.inputs = {{"X", types, 'T'}};
  def.outputs = {{"Y", types, 'T'}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = InferSameAsFirst;
  def.cost = cost;
  def.bind = bind;
  return def;
}

OpDef BinaryDef(std::string_view name, TypeSet types,
                Result<std::unique_ptr<Kernel>> (*bind)(BindContext&), bool comparison) {
  OpDef def;
  def.name = name;
  def.inputs = {{"A", types, 'T'}, {"B", types, 'T'}};
  def.outputs = {{"C", comparison ? kBools : types, comparison ? char{0} : 'T'}};
  if (!comparison) def.aliases = {{.input = 0, .output = 0}, {.input = 1, .output = 0}};
  def.infer = InferBroadcast;
  def.bind = bind;
  return def;
}

OpDef VariadicDef(std::string_view name, TypeSet types,
                  Result<std::unique_ptr<Kernel>> (*bind)(BindContext&)) {
  OpDef def;
  def.name = name;
  def.inputs = {{"data_0", types, 'T', Arity::kVariadic}};
  def.outputs = {{"out", types, 'T'}};
  def.infer = InferBroadcast;
  def.bind = bind;
  return def;
}

}  // namespace parallax::ops
