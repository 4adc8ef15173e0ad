// Tables of indices and weights for Resize.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "kernels/resize/resize.h"

namespace parallax::kernels {
namespace {

// Where output x of an axis lies in the input, by the formulas of the ONNX specification.
double Coordinate(CoordinateMode mode, const ResizeAxis& axis, int64_t in, int64_t out, int64_t x) {
  const double at = static_cast<double>(x);
  const double in_extent = static_cast<double>(in);
  const double out_extent = static_cast<double>(out);
  const double half_pixel = (at + 0.5) / axis.scale - 0.5;
  switch (mode) {
    case CoordinateMode::kHalfPixel:
      return half_pixel;
    case CoordinateMode::kHalfPixelSymmetric: {
      // Keeps the centre in place when the output extent was rounded.
      const double adjustment = out_extent / (axis.scale * in_extent);
      return in_extent / 2 * (1 - adjustment) + half_pixel;
    }
    case CoordinateMode::kPytorchHalfPixel:
      return out > 1 ? half_pixel : 0;
    case CoordinateMode::kAsymmetric:
      return at / axis.scale;
    case CoordinateMode::kAlignCorners:
      // ONNX's reference takes the resized length before it is rounded to an extent.
      return out > 1 ? at * (in_extent - 1) / (in_extent * axis.scale - 1) : 0;
    case CoordinateMode::kTfCropAndResize:
      if (out <= 1) return 0.5 * (axis.roi_start + axis.roi_end) * (in_extent - 1);
      return axis.roi_start * (in_extent - 1) +
             at * (axis.roi_end - axis.roi_start) * (in_extent - 1) / (out_extent - 1);
    case CoordinateMode::kTfHalfPixelForNn:
      return (at + 0.5) / axis.scale;
  }
  return 0;
}

// Far outside every axis is far enough, and safe to convert to an integer; NaN (a region of NaN)
// becomes 0.
double Bounded(double coordinate) {
  constexpr double kFar = 0x1p40;
  return std::isnan(coordinate) ? 0 : std::clamp(coordinate, -kFar, kFar);
}

int64_t Nearest(NearestMode mode, double coordinate) {
  // Rounding to f32 first: a scale given in f32 (1.7f) puts exact multiples a hair below or above
  // an integer, and floor or ceil would then jump. Computing in f32, as others do, hides it too.
  const double x = static_cast<double>(static_cast<float>(coordinate));
  switch (mode) {
    case NearestMode::kRoundPreferFloor:
      return static_cast<int64_t>(std::ceil(x - 0.5));
    case NearestMode::kRoundPreferCeil:
      return static_cast<int64_t>(std::floor(x + 0.5));
    case NearestMode::kFloor:
      return static_cast<int64_t>(std::floor(x));
    case NearestMode::kCeil:
      return static_cast<int64_t>(std::ceil(x));
  }
  return 0;
}

// The filter at distance t: a triangle, or Keys' cubic with coefficient a.
double Filter(ResizeMode mode, double a, double t) {
  t = std::abs(t);
  if (mode == ResizeMode::kLinear) return t < 1 ? 1 - t : 0;
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  return 0;
}

struct Tap {
  int64_t index;
  double weight;
};

// Taps of one output coordinate: clamped into the axis, neighbours on one place merged.
void FindTaps(const ResizeOptions& options, double scale, double x, int64_t in,
              std::vector<Tap>& taps) {
  // Antialiasing stretches the filter over the inputs that one output covers.
  const double stretch = options.antialias ? std::min(scale, 1.0) : 1.0;
  const double radius = (options.mode == ResizeMode::kLinear ? 1 : 2) / stretch;
  const int64_t first = static_cast<int64_t>(std::ceil(x - radius));
  const int64_t last = static_cast<int64_t>(std::floor(x + radius));
  const double a = static_cast<double>(options.cubic_coeff_a);
  taps.clear();
  double sum = 0;
  for (int64_t i = first; i <= last; ++i) {
    const double w = Filter(options.mode, a, (static_cast<double>(i) - x) * stretch);
    if (w == 0 || (options.exclude_outside && (i < 0 || i >= in))) continue;
    const int64_t index = std::clamp<int64_t>(i, 0, in - 1);
    sum += w;
    if (!taps.empty() && taps.back().index == index) {
      taps.back().weight += w;
    } else {
      taps.push_back({index, w});
    }
  }
  if (taps.empty() || sum == 0) {  // everything excluded: the nearest place
    const int64_t nearest = std::clamp<int64_t>(static_cast<int64_t>(std::floor(x)), 0, in - 1);
    taps.assign(1, {nearest, 1});
    sum = 1;
  }
  for (Tap& tap : taps) tap.weight /= sum;
}

ResizeTable MakeTable(const ResizeOptions& options, const ResizeAxis& axis, int64_t in,
                      int64_t out) {
  ResizeTable table;
  table.in = in;
  table.out = out;
  const bool nearest = options.mode == ResizeMode::kNearest;
  std::vector<std::vector<Tap>> all(static_cast<size_t>(out));
  size_t most = 1;
  for (int64_t x = 0; x < out; ++x) {
    std::vector<Tap>& taps = all[static_cast<size_t>(x)];
    const double at = Bounded(Coordinate(options.coordinates, axis, in, out, x));
    if (options.coordinates == CoordinateMode::kTfCropAndResize &&
        (at < 0 || at > static_cast<double>(in - 1))) {
      table.outside.push_back(static_cast<int32_t>(x));
      taps.assign(1, {0, 1});
    } else if (nearest) {
      taps.assign(1, {std::clamp<int64_t>(Nearest(options.nearest, at), 0, in - 1), 1});
    } else {
      FindTaps(options, axis.scale, at, in, taps);
    }
    most = std::max(most, taps.size());
  }
  table.taps = static_cast<int>(most);
  for (const std::vector<Tap>& taps : all) {
    for (size_t t = 0; t < most; ++t) {
      const Tap tap = t < taps.size() ? taps[t] : Tap{taps.back().index, 0};
      table.index.push_back(static_cast<int32_t>(tap.index));
      if (nearest) continue;
      table.weight.push_back(static_cast<float>(tap.weight));
      table.weight64.push_back(tap.weight);
    }
  }
  return table;
}

// Whether the table gives every element back.
bool IsIdentity(const ResizeTable& table) {
  if (table.in != table.out || !table.outside.empty()) return false;
  for (size_t i = 0; i < table.index.size(); ++i) {
    const bool weighs = table.weight64.empty() || table.weight64[i] != 0;
    const bool own = table.index[i] == static_cast<int32_t>(i / static_cast<size_t>(table.taps));
    if (weighs && !own) return false;
  }
  return true;
}

}  // namespace

Result<ResizePlan> MakeResizePlan(const Shape& in, const Shape& out,
                                  std::span<const ResizeAxis> axes, const ResizeOptions& options) {
  ResizePlan plan;
  plan.options = options;
  plan.in_shape = in;
  plan.out_shape = out;
  if (out.elements() == 0) return plan;  // nothing to look up
  bool mergeable = false;
  for (int k = 0; k < in.rank(); ++k) {
    const ResizeAxis& axis = axes[static_cast<size_t>(k)];
    if (!(axis.scale > 0) || !std::isfinite(axis.scale)) {
      return MakeError(ErrorCode::kInvalidArgument, "resize: scale {} of axis {} is not positive",
                       axis.scale, k);
    }
    if (in[k] > std::numeric_limits<int32_t>::max() ||
        out[k] > std::numeric_limits<int32_t>::max()) {
      return MakeError(ErrorCode::kUnsupported, "resize: axis {} of {} to {} is too long", k,
                       in.ToString(), out.ToString());
    }
    // Antialiasing reaches over 2 / scale inputs: only with a region far larger than the input is
    // that more than a few times the axis.
    if (options.antialias && 1 / axis.scale > 4 * static_cast<double>(in[k]) + 4) {
      return MakeError(ErrorCode::kInvalidArgument, "resize: scale {} of axis {} is too small",
                       axis.scale, k);
    }
    if (in[k] == 0 && out[k] != 0) {
      return MakeError(ErrorCode::kInvalidArgument, "resize: axis {} is empty but {} long after", k,
                       out[k]);
    }
    const bool plain =
        in[k] == out[k] && axis.scale == 1 && axis.roi_start == 0 && axis.roi_end == 1;
    ResizeTable table;
    if (!plain) table = MakeTable(options, axis, in[k], out[k]);
    if (plain || IsIdentity(table)) {
      if (mergeable) {
        plan.dims.back().in *= in[k];
        plan.dims.back().out *= in[k];
      } else {
        plan.dims.push_back({in[k], in[k], -1});
      }
      mergeable = true;
      continue;
    }
    plan.dims.push_back({in[k], out[k], static_cast<int>(plan.tables.size())});
    plan.tables.push_back(std::move(table));
    mergeable = false;
  }
  return plan;
}

}  // namespace parallax::kernels
