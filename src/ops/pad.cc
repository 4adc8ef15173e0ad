// Pad: constant, reflect, edge or wrap (opset 19) values around the input; negative amounts crop.
// Amounts and value: attributes until opset 10, inputs since 11; axes since 18. Reflecting and
// wrapping go on past one period, as NumPy does (kernels/move/pad.h).
#include <algorithm>

#include "base/checked.h"
#include "kernels/move/pad.h"
#include "ops/core/copy.h"
#include "ops/core/infer_context.h"
#include "ops/core/scalar.h"

namespace parallax::ops {
namespace {

struct Amounts {
  std::vector<int64_t> begin, end;  // of every axis
};

// Spreads the given amounts over all axes.
Result<Amounts> Spread(std::span<const int64_t> pads, std::span<const int64_t> axes,
                       bool axes_given, int rank) {
  Amounts a;
  a.begin.assign(static_cast<size_t>(rank), 0);
  a.end = a.begin;
  const size_t n = axes_given ? axes.size() : static_cast<size_t>(rank);
  if (pads.size() != 2 * n) {
    return Invalid("pads has {} values, should have {}", pads.size(), 2 * n);
  }
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < n; ++i) {
    PX_ASSIGN_OR_RETURN(int axis,
                        NormalizeAxis(axes_given ? axes[i] : static_cast<int64_t>(i), rank));
    if (seen[static_cast<size_t>(axis)]) return Invalid("axis {} is named twice", axis);
    seen[static_cast<size_t>(axis)] = true;
    a.begin[static_cast<size_t>(axis)] = pads[i];
    a.end[static_cast<size_t>(axis)] = pads[n + i];
  }
  return a;
}

Result<kernels::PadMode> ModeOf(const NodeContext& c) {
  const std::string_view mode = c.String("mode", "constant");
  if (mode == "constant") return kernels::PadMode::kConstant;
  if (mode == "reflect") return kernels::PadMode::kReflect;
  if (mode == "edge") return kernels::PadMode::kEdge;
  if (mode == "wrap" && c.opset() >= 19) return kernels::PadMode::kWrap;
  return Invalid("mode is '{}'", mode);
}

Result<Dim> PaddedExtent(const Dim& in, int64_t begin, int64_t end, kernels::PadMode mode) {
  if (!in.known()) return begin == 0 && end == 0 ? in : Dim();
  const std::optional<int64_t> pads = CheckedAdd(begin, end);
  const std::optional<int64_t> out = pads ? CheckedAdd(in.extent, *pads) : std::nullopt;
  if (!out || *out < 0 || begin > int64_t{1} << 40 || end > int64_t{1} << 40) {
    return Invalid("extent {} with pads {} and {} is not an extent", in.extent, begin, end);
  }
  if (mode != kernels::PadMode::kConstant && in.extent == 0 && *out > 0) {
    return Invalid("an axis without elements has nothing to repeat");
  }
  return Dim(*out);
}

Result<void> Infer(InferContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::PadMode mode, ModeOf(c));
  if (c.has_input(2)) {
    if (std::optional<Shape> s = c.type(2).shape(); s && s->elements() != 1) {
      return Invalid("the value should have one element, has shape {}", s->ToString());
    }
  }
  if (c.rank(0) < 0) return {};
  std::optional<std::vector<int64_t>> pads, axes;
  if (c.opset() < 11) {
    pads = *c.Ints("pads");
  } else {
    pads = c.ConstantInts(1);
    if (c.has_input(3)) axes = c.ConstantInts(3);
  }
  if (!pads || (c.has_input(3) && !axes)) return c.SetUnknownDims(0, c.rank(0));
  PX_ASSIGN_OR_RETURN(Amounts amounts, Spread(*pads, axes ? *axes : std::vector<int64_t>(),
                                              c.has_input(3), c.rank(0)));
  Dims out;
  for (size_t i = 0; i < c.dims(0).size(); ++i) {
    PX_ASSIGN_OR_RETURN(Dim d, PaddedExtent(c.dims(0)[i], amounts.begin[i], amounts.end[i], mode));
    out.push_back(d);
  }
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(kernels::PadMode mode, ModeOf(c));
  const Shape in = c.input(0);
  const size_t size = SizeOf(c.input_type(0));
  if (c.opset() < 11) {
    PX_ASSIGN_OR_RETURN(Amounts amounts, Spread(*c.Ints("pads"), {}, false, in.rank()));
    const Scalar value = ScalarOf(c.input_type(0), static_cast<double>(c.Float("value", 0.0f)));
    return MakeKernel("pad", [=](const KernelArgs& a) {
      kernels::Pad(mode, size, in, amounts.begin, amounts.end, a.raw_in(0), value.bytes,
                   a.raw_out(0), a.team());
    });
  }
  const bool axes_given = c.has_input(3);
  const DType axes_type = axes_given ? c.input_type(3) : DType::kI64;
  const int64_t pad_count = c.input(1).elements();
  const int64_t axis_count = axes_given ? c.input(3).elements() : 0;
  const bool known = c.constant(1) != nullptr && (!axes_given || c.constant(3) != nullptr);
  Amounts amounts;
  if (known) {
    std::vector<int64_t> pads, axes;
    ReadInts(*c.constant(1), 2 * kMaxRank, &pads);
    if (axes_given) ReadInts(*c.constant(3), kMaxRank, &axes);
    PX_ASSIGN_OR_RETURN(amounts, Spread(pads, axes, axes_given, in.rank()));
  }
  return MakeKernel("pad", [=](const KernelArgs& a) -> Result<void> {
    const auto pad = [&](const Amounts& by) {
      kernels::Pad(mode, size, in, by.begin, by.end, a.raw_in(0), a.raw_in(2), a.raw_out(0),
                   a.team());
    };
    if (known) {
      pad(amounts);
      return {};
    }
    std::vector<int64_t> axes;
    if (axes_given) {
      ReadInts(Tensor::Wrap(axes_type, Shape{axis_count}, a.raw_in(3)), kMaxRank, &axes);
    }
    PX_ASSIGN_OR_RETURN(Amounts now, Spread({a.in<int64_t>(1), static_cast<size_t>(pad_count)},
                                            axes, axes_given, in.rank()));
    pad(now);
    return {};
  });
}

}  // namespace

OpDef op_pad() {
  OpDef def;
  def.name = "Pad";
  def.inputs = {{"data", kAll, 'T'},
                Steers({"pads", kI64s, 0, Arity::kOne, 11}),
                {"constant_value", kAll, 'T', Arity::kOptional, 11},
                Steers({"axes", kIndices, 0, Arity::kOptional, 18})};
  def.outputs = {{"output", kAll, 'T'}};
  def.attributes = {{.name = "mode", .type = AttributeType::kString},
                    {.name = "pads", .type = AttributeType::kInts, .required = true, .until = 10},
                    {.name = "value", .type = AttributeType::kFloat, .until = 10}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
