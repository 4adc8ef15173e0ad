// Slice: a part of the input along axes, with steps that may be negative. Attributes until opset 9
// (no steps), inputs since 10; starts and ends are clamped to the extent.
#include <algorithm>
#include <limits>

#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

struct AxisRange {
  int64_t start = 0, step = 1, count = 0;
};

// The elements that start:end:step names in an axis of that extent: NumPy's rules, but that
// backwards a start before the first element is the first element, as ONNX clamps it.
AxisRange Clamp(int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (step > 0) {
    const auto clamp = [&](int64_t v) {
      return std::clamp<int64_t>(v < 0 ? v + extent : v, 0, extent);
    };
    const int64_t first = clamp(start), last = clamp(end);
    return {first, step, last > first ? (last - first - 1) / step + 1 : 0};
  }
  if (extent == 0) return {0, step, 0};
  // Backwards: from at most extent - 1 down to before the first element, -1.
  const auto clamp = [&](int64_t v, int64_t least) {
    return std::clamp<int64_t>(v < 0 ? v + extent : v, least, extent - 1);
  };
  const int64_t first = clamp(start, 0), last = clamp(end, -1);
  if (first <= last) return {0, step, 0};
  // -(step + 1) + 1 does not overflow where -step would.
  const uint64_t stride = static_cast<uint64_t>(-(step + 1)) + 1;
  return {first, step, static_cast<int64_t>(static_cast<uint64_t>(first - last - 1) / stride) + 1};
}

struct Lists {
  std::vector<int64_t> starts, ends, axes, steps;
};

// Fills defaults and checks lengths and axes. `rank` of the input.
Result<void> Complete(Lists* lists, int rank, bool axes_given, bool steps_given) {
  const size_t n = lists->starts.size();
  if (!axes_given) {
    for (size_t i = 0; i < n; ++i) lists->axes.push_back(static_cast<int64_t>(i));
  }
  if (!steps_given) lists->steps.assign(n, 1);
  if (lists->ends.size() != n || lists->axes.size() != n || lists->steps.size() != n) {
    return Invalid("starts, ends, axes and steps have {}, {}, {} and {} elements", n,
                   lists->ends.size(), lists->axes.size(), lists->steps.size());
  }
  PX_RETURN_IF_ERROR(NormalizeAxes(lists->axes, rank));
  for (int64_t& a : lists->axes) a += a < 0 ? rank : 0;
  for (int64_t s : lists->steps) {
    if (s == 0) return Invalid("a step is 0");
  }
  return {};
}

// The lists of an InferContext or a BindContext, or nothing while an input has no value yet.
template <class Context>
std::optional<Lists> KnownLists(const Context& c) {
  constexpr int64_t kMaxValues = 4096;  // far above any rank: longer lists are refused by length
  Lists lists;
  if (c.opset() < 10) {
    if (const auto* v = c.Ints("starts")) lists.starts = *v;
    if (const auto* v = c.Ints("ends")) lists.ends = *v;
    if (const auto* v = c.Ints("axes")) lists.axes = *v;
    return lists;
  }
  std::vector<int64_t>* targets[] = {&lists.starts, &lists.ends, &lists.axes, &lists.steps};
  for (int i = 0; i < 4; ++i) {
    if (!c.has_input(1 + i)) continue;
    const Tensor* constant = c.constant(1 + i);
    if (constant == nullptr || !ReadInts(*constant, kMaxValues, targets[i])) return std::nullopt;
  }
  return lists;
}

bool AxesGiven(const NodeContext& c) {
  return c.opset() < 10 ? c.has_attribute("axes") : c.has_input(3);
}
bool StepsGiven(const NodeContext& c) { return c.opset() >= 10 && c.has_input(4); }

Result<void> Infer(InferContext& c) {
  if (c.opset() >= 10) {
    for (int i = 1; i < 5; ++i) {
      if (c.has_input(i) && c.rank(i) >= 0 && c.rank(i) != 1) {
        return Invalid("input {} should be a vector, has rank {}", i, c.rank(i));
      }
    }
  }
  if (c.rank(0) < 0) return {};
  std::optional<Lists> lists = KnownLists(c);
  if (!lists) return c.SetUnknownDims(0, c.rank(0));
  PX_RETURN_IF_ERROR(Complete(&*lists, c.rank(0), AxesGiven(c), StepsGiven(c)));
  Dims out = c.dims(0);
  for (size_t i = 0; i < lists->axes.size(); ++i) {
    Dim& d = out[static_cast<size_t>(lists->axes[i])];
    const int64_t start = lists->starts[i], end = lists->ends[i], step = lists->steps[i];
    if (d.known()) {
      d = Dim(Clamp(start, end, step, d.extent).count);
    } else if (start != 0 || end < std::numeric_limits<int32_t>::max() || step != 1) {
      d = Dim();  // a whole axis keeps its symbol
    }
  }
  if (std::optional<Dims> values = c.DimValues(0); values && c.rank(0) == 1) {
    Dims part = *values;
    if (!lists->axes.empty()) {
      const AxisRange r = Clamp(lists->starts[0], lists->ends[0], lists->steps[0],
                                static_cast<int64_t>(values->size()));
      part.clear();
      for (int64_t k = 0; k < r.count; ++k) {
        part.push_back((*values)[static_cast<size_t>(r.start + k * r.step)]);
      }
    }
    c.SetDimValues(0, std::move(part));
  }
  return c.SetDims(0, std::move(out));
}

kernels::CopyPlan PlanOf(const Shape& in, const Shape& out, const Lists& lists) {
  std::vector<int64_t> starts(static_cast<size_t>(in.rank()), 0);
  std::vector<int64_t> steps(static_cast<size_t>(in.rank()), 1);
  for (size_t i = 0; i < lists.axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(lists.axes[i]);
    const AxisRange r =
        Clamp(lists.starts[i], lists.ends[i], lists.steps[i], in[static_cast<int>(axis)]);
    starts[axis] = r.start;
    steps[axis] = r.count > 1 ? r.step : 1;
  }
  return kernels::SlicePlan(in, starts, steps, out);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape in = c.input(0), out = c.output(0);
  const size_t size = SizeOf(c.input_type(0));
  const bool axes_given = AxesGiven(c), steps_given = StepsGiven(c);
  if (std::optional<Lists> lists = KnownLists(c)) {
    PX_RETURN_IF_ERROR(Complete(&*lists, in.rank(), axes_given, steps_given));
    return BindStridedCopy(c, "slice", PlanOf(in, out, *lists));
  }
  // The bounds arrive with the run; inference has just checked them against the output's shape.
  const int64_t count = c.input(1).elements();
  const DType index = c.input_type(1);
  const bool given[4] = {true, true, axes_given, steps_given};
  return MakeKernel("slice", [=](const KernelArgs& a) -> Result<void> {
    Lists now;
    std::vector<int64_t>* targets[] = {&now.starts, &now.ends, &now.axes, &now.steps};
    for (int i = 0; i < 4; ++i) {
      if (!given[i]) continue;
      ReadInts(Tensor::Wrap(index, Shape{count}, a.raw_in(1 + i)), kMaxRank, targets[i]);
    }
    PX_RETURN_IF_ERROR(Complete(&now, in.rank(), axes_given, steps_given));
    kernels::StridedCopy(PlanOf(in, out, now), size, a.raw_in(0), a.raw_out(0), a.team());
    return {};
  });
}

}  // namespace

OpDef op_slice() {
  OpDef def;
  def.name = "Slice";
  def.inputs = {{"data", kAll, 'T'},
                Steers({"starts", kIndices, 'I', Arity::kOne, 10}),
                Steers({"ends", kIndices, 'I', Arity::kOne, 10}),
                Steers({"axes", kIndices, 'I', Arity::kOptional, 10}),
                Steers({"steps", kIndices, 'I', Arity::kOptional, 10})};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "starts", .type = AttributeType::kInts, .required = true, .until = 9},
                    {.name = "ends", .type = AttributeType::kInts, .required = true, .until = 9},
                    {.name = "axes", .type = AttributeType::kInts, .until = 9}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
