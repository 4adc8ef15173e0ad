#include "ops/core/resize_op.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

constexpr double kMaxExtent = 2147483647.0;

// A list of floats of any float type (scales are f32; roi may be f16 or f64).
std::vector<float> ReadFloats(DType dtype, const void* data, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  DispatchType(dtype, [&]<class T>() {
    if constexpr (IsFloat(kDTypeOf<T>)) {
      for (int64_t i = 0; i < n; ++i) {
        T v;
        std::memcpy(&v, static_cast<const std::byte*>(data) + static_cast<size_t>(i) * sizeof(T),
                    sizeof(T));
        values[static_cast<size_t>(i)] = static_cast<float>(v);
      }
    }
  });
  return values;
}

// The axes that scales, sizes and roi speak of.
Result<std::vector<int>> AxesOf(const NodeContext& c, int rank) {
  std::vector<int> axes;
  if (const std::vector<int64_t>* given = c.Ints("axes")) {
    for (int64_t a : *given) {
      PX_ASSIGN_OR_RETURN(int axis, NormalizeAxis(a, rank));
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
        return Invalid("axis {} is named twice", axis);
      }
      axes.push_back(axis);
    }
    return axes;
  }
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

Result<void> ApplySizes(const NodeContext& c, const Shape& in, const std::vector<int>& axes,
                        const std::vector<int64_t>& sizes, ResizeGeometry* g) {
  const std::string_view policy = c.String("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    return Invalid("keep_aspect_ratio_policy is '{}'", policy);
  }
  std::vector<double> scales;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t extent = in[axes[i]];
    if (sizes[i] < 0 || static_cast<double>(sizes[i]) > kMaxExtent) {
      return Invalid("sizes has the extent {}", sizes[i]);
    }
    scales.push_back(extent == 0 ? 1.0
                                 : static_cast<double>(sizes[i]) / static_cast<double>(extent));
  }
  if (policy != "stretch" && !scales.empty()) {
    const double common = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                                 : *std::max_element(scales.begin(), scales.end());
    std::fill(scales.begin(), scales.end(), common);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    kernels::ResizeAxis& axis = g->axes[static_cast<size_t>(axes[i])];
    axis.scale = scales[i];
    int64_t extent = sizes[i];
    if (policy != "stretch") {
      // Halves round up.
      const double exact = std::floor(static_cast<double>(in[axes[i]]) * scales[i] + 0.5);
      if (exact > kMaxExtent) return Invalid("sizes make an extent of {}", exact);
      extent = static_cast<int64_t>(exact);
    }
    g->out[axes[i]] = extent;
  }
  return {};
}

std::optional<ResizeNumbers> KnownNumbers(const InferContext& c, const ResizeInputs& inputs,
                                          const std::vector<float>* attribute_scales) {
  ResizeNumbers n;
  if (attribute_scales != nullptr) n.scales = *attribute_scales;
  for (int i : {inputs.roi, inputs.scales}) {
    if (i < 0 || !c.has_input(i)) continue;
    const Tensor* t = c.constant(i);
    if (t == nullptr) return std::nullopt;
    (i == inputs.roi ? n.roi : n.scales) = ReadFloats(t->dtype(), t->bytes_begin(), t->elements());
  }
  if (inputs.sizes >= 0 && c.has_input(inputs.sizes)) {
    std::optional<std::vector<int64_t>> sizes = c.ConstantInts(inputs.sizes);
    if (!sizes) return std::nullopt;
    n.sizes = std::move(*sizes);
  }
  return n;
}

}  // namespace

Result<ResizeGeometry> ResolveResize(const NodeContext& c, const Shape& in,
                                     const ResizeNumbers& numbers) {
  PX_ASSIGN_OR_RETURN(std::vector<int> axes, AxesOf(c, in.rank()));
  if (numbers.scales.empty() == numbers.sizes.empty() && !axes.empty()) {
    return Invalid("either scales or sizes should be given, {}",
                   numbers.scales.empty() ? "none is" : "both are");
  }
  const size_t given = std::max(numbers.scales.size(), numbers.sizes.size());
  if (given != axes.size()) {
    return Invalid("{} has {} values for {} axes", numbers.sizes.empty() ? "scales" : "sizes",
                   given, axes.size());
  }
  ResizeGeometry g;
  g.out = in;
  g.axes.resize(static_cast<size_t>(in.rank()));
  if (!numbers.sizes.empty()) {
    PX_RETURN_IF_ERROR(ApplySizes(c, in, axes, numbers.sizes, &g));
  } else {
    for (size_t i = 0; i < axes.size(); ++i) {
      const float scale = numbers.scales[i];
      if (!(scale > 0) || std::isinf(scale)) return Invalid("scales has the value {}", scale);
      const double extent =
          std::floor(static_cast<double>(in[axes[i]]) * static_cast<double>(scale));
      if (extent > kMaxExtent) return Invalid("scale {} makes an extent of {}", scale, extent);
      g.axes[static_cast<size_t>(axes[i])].scale = static_cast<double>(scale);
      g.out[axes[i]] = static_cast<int64_t>(extent);
    }
  }
  if (c.String("coordinate_transformation_mode") == "tf_crop_and_resize") {
    if (numbers.roi.size() != 2 * axes.size()) {
      return Invalid("roi has {} values, should have {}", numbers.roi.size(), 2 * axes.size());
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      kernels::ResizeAxis& axis = g.axes[static_cast<size_t>(axes[i])];
      axis.roi_start = static_cast<double>(numbers.roi[i]);
      axis.roi_end = static_cast<double>(numbers.roi[axes.size() + i]);
      if (numbers.sizes.empty()) {
        // Scales apply to the cropped part.
        const double crop = axis.roi_end - axis.roi_start;
        const double extent = std::floor(static_cast<double>(in[axes[i]]) * crop * axis.scale);
        if (!(extent >= 0) || extent > kMaxExtent)
          return Invalid("roi makes an extent of {}", extent);
        g.out[axes[i]] = static_cast<int64_t>(extent);
      }
    }
  }
  Result<Shape> checked = Shape::Make(g.out.dims());
  if (!checked.ok()) return checked.error();
  return g;
}

Result<void> InferResize(InferContext& c, const ResizeInputs& inputs,
                         const std::vector<float>* attribute_scales) {
  if (c.rank(0) < 0) return {};
  const std::optional<ResizeNumbers> numbers = KnownNumbers(c, inputs, attribute_scales);
  const std::optional<Shape> in = c.type(0).shape();
  if (!numbers) return c.SetUnknownDims(0, c.rank(0));
  if (in) {
    PX_ASSIGN_OR_RETURN(ResizeGeometry g, ResolveResize(c, *in, *numbers));
    return c.SetType(0, TensorType::Of(c.dtype(0), g.out));
  }
  // Extents whose own input extent is known still come out; axes not named stay as they are.
  Dims out(c.dims(0).size());
  PX_ASSIGN_OR_RETURN(std::vector<int> axes, AxesOf(c, c.rank(0)));
  for (size_t d = 0; d < out.size(); ++d) {
    const auto it = std::find(axes.begin(), axes.end(), static_cast<int>(d));
    const size_t i = static_cast<size_t>(it - axes.begin());
    if (it == axes.end()) {
      out[d] = c.dims(0)[d];
    } else if (i < numbers->scales.size() && numbers->scales[i] == 1.0f) {
      out[d] = c.dims(0)[d];
    } else if (i < numbers->scales.size() && c.dims(0)[d].known() && numbers->roi.empty()) {
      const double extent = std::floor(static_cast<double>(c.dims(0)[d].extent) *
                                       static_cast<double>(numbers->scales[i]));
      if (!(extent >= 0) || extent > kMaxExtent) {
        return Invalid("scale {} makes an extent of {}", numbers->scales[i], extent);
      }
      out[d] = Dim(static_cast<int64_t>(extent));
    } else if (i < numbers->sizes.size() && numbers->sizes[i] >= 0 &&
               !c.has_attribute("keep_aspect_ratio_policy")) {
      out[d] = Dim(numbers->sizes[i]);
    }
  }
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> BindResize(BindContext& c, const ResizeInputs& inputs,
                                           const std::vector<float>* attribute_scales,
                                           const kernels::ResizeOptions& options) {
  const Shape in = c.input(0), out = c.output(0);
  const DType dtype = c.input_type(0);
  if (options.mode != kernels::ResizeMode::kNearest && dtype == DType::kBool) {
    return MakeError(ErrorCode::kUnsupported, "only nearest resizes bools");
  }
  ResizeNumbers numbers;
  if (attribute_scales != nullptr) numbers.scales = *attribute_scales;
  bool known = true;
  for (int i : {inputs.roi, inputs.scales, inputs.sizes}) {
    if (i < 0 || !c.has_input(i)) continue;
    const Tensor* t = c.constant(i);
    if (t == nullptr) {
      known = false;
    } else if (i == inputs.sizes) {
      ReadInts(*t, kMaxRank, &numbers.sizes);
    } else {
      (i == inputs.roi ? numbers.roi : numbers.scales) =
          ReadFloats(t->dtype(), t->bytes_begin(), t->elements());
    }
  }
  const std::string name = options.mode == kernels::ResizeMode::kNearest  ? "resize_nearest"
                           : options.mode == kernels::ResizeMode::kLinear ? "resize_linear"
                                                                          : "resize_cubic";
  if (known) {
    PX_ASSIGN_OR_RETURN(ResizeGeometry g, ResolveResize(c, in, numbers));
    PX_ASSIGN_OR_RETURN(kernels::ResizePlan plan,
                        kernels::MakeResizePlan(in, out, g.axes, options));
    auto shared = std::make_shared<const kernels::ResizePlan>(std::move(plan));
    return MakeKernel(
        name,
        [=](const KernelArgs& a) {
          kernels::Resize(*shared, dtype, a.raw_in(0), a.raw_out(0), a.workspace(), a.team());
        },
        kernels::ResizeWorkspaceBytes(*shared, dtype, c.team_size()));
  }
  // The numbers arrive with the run: the plan is made there, with its own workspace.
  struct List {
    int input = -1;
    DType dtype = DType::kUndefined;
    int64_t count = 0;
  };
  const auto list = [&](int i) {
    if (i < 0 || !c.has_input(i)) return List{};
    return List{i, c.input_type(i), c.input(i).elements()};
  };
  const List roi = list(inputs.roi), scales = list(inputs.scales), sizes = list(inputs.sizes);
  const Node* node = &c.node();
  const int team_size = c.team_size();
  return MakeKernel(name, [=](const KernelArgs& a) -> Result<void> {
    ResizeNumbers now;
    if (roi.input >= 0) now.roi = ReadFloats(roi.dtype, a.raw_in(roi.input), roi.count);
    if (scales.input >= 0)
      now.scales = ReadFloats(scales.dtype, a.raw_in(scales.input), scales.count);
    if (sizes.input >= 0) {
      const int64_t* values = a.in<int64_t>(sizes.input);
      now.sizes.assign(values, values + sizes.count);
    }
    PX_ASSIGN_OR_RETURN(ResizeGeometry g, ResolveResize(NodeContext(*node), in, now));
    PX_ASSIGN_OR_RETURN(kernels::ResizePlan plan,
                        kernels::MakeResizePlan(in, out, g.axes, options));
    const size_t bytes = kernels::ResizeWorkspaceBytes(plan, dtype, team_size);
    PX_ASSIGN_OR_RETURN(Tensor workspace,
                        Tensor::Allocate(DType::kU8, Shape{static_cast<int64_t>(bytes)}));
    kernels::Resize(plan, dtype, a.raw_in(0), a.raw_out(0), workspace.mutable_bytes(), a.team());
    return {};
  });
}

Cost ResizeCost(const CostContext& c) {
  // Two taps an axis for linear; near enough for the others.
  return {.op_class = OpClass::kMove, .flops = 4.0 * static_cast<double>(c.output(0).elements())};
}

}  // namespace parallax::ops
