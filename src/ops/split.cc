// Split: parts along `axis` (default 0): of the given sizes (attribute `split`, an input since
// opset 13), else equal ones, the last smaller where num_outputs (opset 18) does not divide the
// extent.
#include "base/checked.h"
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

std::optional<std::vector<int64_t>> GivenSizes(const InferContext& c) {
  if (c.has_input(1)) return c.ConstantInts(1);
  const std::vector<int64_t>* attribute = c.Ints("split");
  return attribute == nullptr ? std::vector<int64_t>() : *attribute;
}

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) return {};
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.rank(0)));
  const Dim& extent = c.dims(0)[static_cast<size_t>(axis)];
  const int64_t outputs = c.num_outputs();
  const bool given = c.has_input(1) || c.has_attribute("split");
  std::optional<std::vector<int64_t>> sizes = GivenSizes(c);
  if (c.has_attribute("num_outputs")) {
    if (given) return Invalid("both split and num_outputs are given");
    if (c.Int("num_outputs", 0) != outputs) {
      return Invalid("num_outputs is {}, the node has {}", c.Int("num_outputs", 0), outputs);
    }
  } else if (!given && c.opset() >= 18) {
    return Invalid("neither split nor num_outputs is given");
  }
  if (!given && extent.known()) {
    const int64_t part = CeilDiv(extent.extent, outputs);
    const int64_t last = extent.extent - part * (outputs - 1);
    if (last < 0 || (last != part && c.opset() < 18)) {
      return Invalid("extent {} does not divide into {} parts", extent.extent, outputs);
    }
    sizes = std::vector<int64_t>(static_cast<size_t>(outputs), part);
    sizes->back() = last;
  }
  if (given && sizes) {
    int64_t sum = 0;
    for (int64_t s : *sizes) {
      const std::optional<int64_t> next = s < 0 ? std::nullopt : CheckedAdd(sum, s);
      if (!next) return Invalid("split has the size {}", s);
      sum = *next;
    }
    if (static_cast<int64_t>(sizes->size()) != outputs) {
      return Invalid("split has {} sizes for {} outputs", sizes->size(), outputs);
    }
    if (extent.known() && sum != extent.extent) {
      return Invalid("split sizes add up to {}, the extent is {}", sum, extent.extent);
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    Dims dims = c.dims(0);
    const bool known = sizes && sizes->size() == static_cast<size_t>(outputs);
    dims[static_cast<size_t>(axis)] = known ? Dim((*sizes)[static_cast<size_t>(i)]) : Dim();
    PX_RETURN_IF_ERROR(c.SetDims(i, std::move(dims)));
  }
  return {};
}

// Left-out outputs have no shape of their own: sizes come from the same rules again.
std::vector<int64_t> BoundSizes(const BindContext& c, int axis) {
  const int64_t outputs = c.num_outputs();
  std::vector<int64_t> sizes;
  if (c.has_input(1)) {
    if (c.constant(1) != nullptr) ReadInts(*c.constant(1), outputs, &sizes);
  } else if (const std::vector<int64_t>* attribute = c.Ints("split")) {
    sizes = *attribute;
  } else {
    const int64_t extent = c.input(0)[axis], part = CeilDiv(extent, outputs);
    sizes.assign(static_cast<size_t>(outputs), part);
    sizes.back() = extent - part * (outputs - 1);
  }
  return sizes;
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(c.Int("axis", 0), c.input(0).rank()));
  const std::vector<int64_t> known = BoundSizes(c, axis);
  const int outputs = c.num_outputs();
  const Shape in = c.input(0);
  const size_t size = SizeOf(c.input_type(0));
  return MakeKernel("split", [=](const KernelArgs& a) {
    int64_t offset = 0;
    for (int i = 0; i < outputs; ++i) {
      const int64_t extent = known.empty() ? a.in<int64_t>(1)[i] : known[static_cast<size_t>(i)];
      Shape part = in;
      part[axis] = extent;
      if (a.raw_out(i) != nullptr && part.elements() > 0) {
        kernels::StridedCopy(kernels::SplitPlan(in, part, axis, offset), size, a.raw_in(0),
                             a.raw_out(i), a.team());
      }
      offset += extent;
    }
  });
}

}  // namespace

OpDef op_split() {
  OpDef def;
  def.name = "Split";
  def.inputs = {{"input", kAll, 'T'}, Steers({"split", kI64s, 0, Arity::kOptional, 13})};
  def.outputs = {{"outputs", kAll, 'T', Arity::kVariadic}};
  def.attributes = {{.name = "axis"},
                    {.name = "split", .type = AttributeType::kInts, .until = 12},
                    {.name = "num_outputs", .since = 18}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
