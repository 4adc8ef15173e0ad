#include "ops/core/reduce_op.h"

#include <algorithm>
#include <cstring>

#include "ops/core/dims.h"

namespace parallax::ops {
namespace {

// What the node says about its axes before running.
struct AxesSource {
  bool from_input = false;  // input 1 holds them
  const std::vector<int64_t>* attribute = nullptr;
};

AxesSource SourceOf(const NodeContext& c) { return {c.has_input(1), c.Ints("axes")}; }

// No axes reduce all, or nothing when the node says so. Then every element is reduced alone: what
// the operator does to a term, and to the sum of them, still happens (ReduceL2 gives |x|).
bool KeepsAll(const NodeContext& c, bool axes_empty) {
  return axes_empty && c.Int("noop_with_empty_axes", 0) != 0;
}

Result<void> Infer(InferContext& c) {
  const AxesSource source = SourceOf(c);
  const bool keep = c.Int("keepdims", 1) != 0;
  std::vector<int64_t> axes;
  bool known = true;
  if (source.from_input) {
    if (c.rank(1) > 1) return Invalid("axes should be a vector, has rank {}", c.rank(1));
    std::optional<std::vector<int64_t>> values = c.ConstantInts(1);
    known = values.has_value();
    if (known) axes = *values;
  } else if (source.attribute != nullptr) {
    axes = *source.attribute;
  }
  if (c.rank(0) < 0) return {};
  const Dims& in = c.dims(0);
  if (!known) {
    // Only the number of axes may be known.
    if (keep) return c.SetUnknownDims(0, c.rank(0));
    const std::optional<Shape> shape = c.type(1).shape();
    if (!shape || shape->elements() == 0 || shape->elements() > c.rank(0)) return {};
    return c.SetUnknownDims(0, c.rank(0) - static_cast<int>(shape->elements()));
  }
  if (KeepsAll(c, axes.empty())) return c.SetDims(0, in);
  PX_ASSIGN_OR_RETURN(std::vector<int> reduced, NormalizeAxes(axes, c.rank(0)));
  Dims out;
  for (int i = 0; i < c.rank(0); ++i) {
    const bool gone = reduced.empty() || std::binary_search(reduced.begin(), reduced.end(), i);
    if (!gone) {
      out.push_back(in[static_cast<size_t>(i)]);
    } else if (keep) {
      out.emplace_back(1);
    }
  }
  return c.SetDims(0, std::move(out));
}

Cost Estimate(const CostContext& c) {
  return {.op_class = OpClass::kReduce, .flops = static_cast<double>(c.input(0).elements())};
}

// Axes of a tensor of that shape as the kernel wants them: in [0, rank), all when none are given
// and that does not mean none.
kernels::ReducePlan PlanOf(const Shape& shape, std::span<const int64_t> axes, bool keeps_all) {
  std::vector<int64_t> normalized(axes.begin(), axes.end());
  for (int64_t& a : normalized) a += a < 0 ? shape.rank() : 0;
  if (axes.empty() && !keeps_all) {
    for (int i = 0; i < shape.rank(); ++i) normalized.push_back(i);
  }
  return kernels::MakeReducePlan(shape, normalized);
}

}  // namespace

Result<std::unique_ptr<Kernel>> BindReduce(BindContext& c, kernels::ReduceOp op) {
  const DType dtype = c.input_type(0);
  if (!kernels::ReduceSupports(op, dtype)) {
    return MakeError(ErrorCode::kUnsupported, "not implemented for {}", Name(dtype));
  }
  const Shape shape = c.input(0);
  const AxesSource source = SourceOf(c);
  const int64_t count = source.from_input ? c.input(1).elements()
                        : source.attribute != nullptr
                            ? static_cast<int64_t>(source.attribute->size())
                            : 0;
  using R = kernels::ReduceOp;
  const bool changes_single =
      op == R::kL1 || op == R::kL2 || op == R::kSumSquare || op == R::kLogSum;
  const bool keeps_all = KeepsAll(c, count == 0);
  if (keeps_all && !changes_single) {
    const size_t bytes = static_cast<size_t>(shape.elements()) * SizeOf(dtype);
    return MakeKernel("copy", [=](const KernelArgs& a) {
      if (bytes > 0) std::memcpy(a.raw_out(0), a.raw_in(0), bytes);
    });
  }
  if (source.from_input && c.constant(1) == nullptr) {
    return MakeKernel("reduce", [=](const KernelArgs& a) {
      const kernels::ReducePlan plan =
          PlanOf(shape, {a.in<int64_t>(1), static_cast<size_t>(count)}, keeps_all);
      kernels::Reduce(op, dtype, plan, a.raw_in(0), a.raw_out(0), a.team());
    });
  }
  std::vector<int64_t> axes;
  if (source.from_input) {
    ReadInts(*c.constant(1), kMaxRank, &axes);
  } else if (source.attribute != nullptr) {
    axes = *source.attribute;
  }
  const kernels::ReducePlan plan = PlanOf(shape, axes, keeps_all);
  return MakeKernel("reduce", [=](const KernelArgs& a) {
    kernels::Reduce(op, dtype, plan, a.raw_in(0), a.raw_out(0), a.team());
  });
}

OpDef ReduceDef(std::string_view name, TypeSet types, int axes_input_since,
                Result<std::unique_ptr<Kernel>> (*bind)(BindContext&)) {
  OpDef def;
  def.name = name;
  def.inputs = {{"data", types, 'T'},
                Steers({"axes", kI64s, 0, Arity::kOptional, axes_input_since})};
  def.outputs = {{"reduced", types, 'T'}};
  def.attributes = {{.name = "axes", .type = AttributeType::kInts, .until = axes_input_since - 1},
                    {.name = "keepdims"},
                    {.name = "noop_with_empty_axes", .since = axes_input_since}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = bind;
  return def;
}

}  // namespace parallax::ops
