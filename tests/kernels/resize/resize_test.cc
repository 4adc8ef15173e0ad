// Resize: values published with the ONNX specification, and an independent evaluation of its
// formulas over modes, ranks, types, targets and teams.
#include "kernels/resize/resize.h"

#include <cmath>
#include <vector>

#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

using Floats = std::vector<float>;

ResizePlan PlanOf(const Shape& in, const Shape& out, const std::vector<ResizeAxis>& axes,
                  const ResizeOptions& options) {
  Result<ResizePlan> plan = MakeResizePlan(in, out, axes, options);
  EXPECT_TRUE(plan.ok());
  return *plan;
}

// With scales as given, on every target and team; all must agree.
Floats RunF32(const Shape& in, const Shape& out, const std::vector<ResizeAxis>& axes,
              const ResizeOptions& options, const Floats& x) {
  const ResizePlan plan = PlanOf(in, out, axes, options);
  Floats y;
  ForEachTarget([&] {
    y = RunTeams<float>(static_cast<size_t>(out.elements()), [&](Team& team, float* to) {
      // Garbage, so that a read of what was not written shows.
      std::vector<std::byte> workspace(ResizeWorkspaceBytes(plan, DType::kF32, team.size()),
                                       std::byte{0xff});
      Resize(plan, DType::kF32, x.data(), to, workspace.data(), team);
    });
  });
  return y;
}

void ExpectNear(const Floats& got, const Floats& want, float tolerance = 2e-6f) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0f, std::fabs(want[i]))) << "at " << i;
  }
}

Floats Count(int n) {
  Floats x;
  for (int i = 1; i <= n; ++i) x.push_back(static_cast<float>(i));
  return x;
}

constexpr ResizeMode kLinear = ResizeMode::kLinear;
constexpr ResizeMode kCubic = ResizeMode::kCubic;
constexpr ResizeMode kNearest = ResizeMode::kNearest;

TEST(Resize, PublishedLinear) {
  ExpectNear(RunF32({2, 2}, {4, 4}, {{2}, {2}}, {.mode = kLinear}, {1, 2, 3, 4}),
             {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  ExpectNear(RunF32({2, 2}, {4, 4}, {{2}, {2}},
                    {.mode = kLinear, .coordinates = CoordinateMode::kAlignCorners}, {1, 2, 3, 4}),
             {1, 1.33333333f, 1.66666667f, 2, 1.66666667f, 2, 2.33333333f, 2.66666667f, 2.33333333f,
              2.66666667f, 3, 3.33333333f, 3, 3.33333333f, 3.66666667f, 4});
  // Coordinates use the scale, not the ratio of extents.
  ExpectNear(RunF32({4}, {2}, {{static_cast<double>(0.6f)}}, {.mode = kLinear}, {1, 2, 3, 4}),
             {1.3333333f, 3});
  ExpectNear(RunF32({3}, {1}, {{1.0 / 3}},
                    {.mode = kLinear, .coordinates = CoordinateMode::kAlignCorners}, {1, 2, 3}),
             {1});
  ExpectNear(
      RunF32({4, 4}, {3, 3}, {{0.75}, {0.75}},
             {.mode = kLinear, .coordinates = CoordinateMode::kHalfPixel}, Count(16)),
      {1.8333334f, 3.1666667f, 4.5f, 7.1666665f, 8.5f, 9.833333f, 12.5f, 13.833333f, 15.166667f});
}

TEST(Resize, PublishedCubic) {
  const Floats got = RunF32({4, 4}, {8, 8}, {{2}, {2}}, {.mode = kCubic}, Count(16));
  ExpectNear(Floats(got.begin(), got.begin() + 8),
             {0.47265625f, 0.76953125f, 1.24609375f, 1.875f, 2.28125f, 2.91015625f, 3.38671875f,
              3.68359375f});
  ExpectNear(RunF32({4, 4}, {3, 3}, {{0.8}, {0.8}}, {.mode = kCubic}, Count(16)),
             {1.47119141f, 2.78125f, 4.08251953f, 6.71142578f, 8.02148438f, 9.32275391f,
              11.91650391f, 13.2265625f, 14.52783203f});
  const Floats excluded =
      RunF32({4, 4}, {8, 8}, {{2}, {2}},
             {.mode = kCubic, .cubic_coeff_a = -0.5f, .exclude_outside = true}, Count(16));
  ExpectNear(Floats(excluded.begin(), excluded.begin() + 4),
             {0.55882353f, 0.81494204f, 1.35698249f, 1.89705882f});
}

TEST(Resize, PublishedAntialias) {
  const double scale = static_cast<double>(0.6f);
  ExpectNear(
      RunF32({4, 4}, {2, 2}, {{scale}, {scale}}, {.mode = kLinear, .antialias = true}, Count(16)),
      {2.875f, 4.5f, 9.375f, 11});
  ExpectNear(
      RunF32({4, 4}, {2, 2}, {{scale}, {scale}}, {.mode = kCubic, .antialias = true}, Count(16)),
      {2.5180721f, 4.2858863f, 9.589329f, 11.357142f});
}

TEST(Resize, PublishedCropAndExtrapolation) {
  const ResizeOptions crop = {.mode = kLinear, .coordinates = CoordinateMode::kTfCropAndResize};
  ExpectNear(RunF32({4, 4}, {3, 3}, {{0.75, 0.4, 0.6}, {0.75, 0.6, 0.8}}, crop, Count(16)),
             {7.6000004f, 7.9f, 8.2f, 8.8f, 9.1f, 9.400001f, 10, 10.3f, 10.6f});
  ResizeOptions beyond = crop;
  beyond.extrapolation_value = 10;
  const Floats got =
      RunF32({4, 4}, {3, 3}, {{0.75, 0.4, 1.2}, {0.75, 0.6, 1.7}}, beyond, Count(16));
  ExpectNear(got, {7.6000004f, 10, 10, 12.400001f, 10, 10, 10, 10, 10});
  EXPECT_EQ(got[8], 10.0f);  // exactly, though weights only sum to about 1
}

TEST(Resize, PublishedNearest) {
  const Floats x = {1, 2, 3, 4};
  ExpectNear(RunF32({2, 2}, {4, 6}, {{2}, {3}}, {}, x),
             {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  ExpectNear(RunF32({2, 4}, {1, 2}, {{0.6}, {0.6}}, {}, Count(8)), {1, 3});
  ExpectNear(
      RunF32({4, 4}, {8, 8}, {{2}, {2}},
             {.coordinates = CoordinateMode::kHalfPixel, .nearest = NearestMode::kCeil}, Count(16)),
      {1,  2,  2,  3,  3,  4,  4,  4,  5,  6,  6,  7,  7,  8,  8,  8,  5,  6,  6,  7,  7,  8,
       8,  8,  9,  10, 10, 11, 11, 12, 12, 12, 9,  10, 10, 11, 11, 12, 12, 12, 13, 14, 14, 15,
       15, 16, 16, 16, 13, 14, 14, 15, 15, 16, 16, 16, 13, 14, 14, 15, 15, 16, 16, 16});
  // 1.7f is a little under 1.7: 17 / 1.7f must still floor to 10.
  const Floats wide = RunF32(
      {20}, {34}, {{static_cast<double>(1.7f)}},
      {.coordinates = CoordinateMode::kAsymmetric, .nearest = NearestMode::kFloor}, Count(20));
  EXPECT_EQ(wide[17], 11.0f);
  EXPECT_EQ(wide[16], 10.0f);
}

// The specification's evaluation of one axis, in f64: weights over a window of the input extended
// by its edge values.
std::vector<double> Axis(const std::vector<double>& data, int64_t out, const ResizeAxis& axis,
                         const ResizeOptions& o) {
  const int64_t in = static_cast<int64_t>(data.size());
  const double s = axis.scale;
  const double stretch = o.antialias ? std::min(s, 1.0) : 1.0;
  const double a = static_cast<double>(o.cubic_coeff_a);
  const auto filter = [&](double t) {
    t = std::fabs(t);
    if (o.mode == kLinear) return std::max(0.0, 1 - t);
    if (t <= 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
    return t < 2 ? a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a : 0.0;
  };
  std::vector<double> result;
  for (int64_t x = 0; x < out; ++x) {
    const double d = static_cast<double>(x);
    double at = (d + 0.5) / s - 0.5;
    const double resized = s * static_cast<double>(in);
    switch (o.coordinates) {
      case CoordinateMode::kHalfPixel:
        break;
      case CoordinateMode::kHalfPixelSymmetric:
        at += static_cast<double>(in) / 2 * (1 - static_cast<double>(out) / resized);
        break;
      case CoordinateMode::kPytorchHalfPixel:
        at = out > 1 ? at : 0;
        break;
      case CoordinateMode::kAsymmetric:
        at = d / s;
        break;
      case CoordinateMode::kAlignCorners:
        at = out > 1 ? d * static_cast<double>(in - 1) / (resized - 1) : 0;
        break;
      case CoordinateMode::kTfCropAndResize:
        at = static_cast<double>(in - 1) *
             (out > 1 ? axis.roi_start +
                            d * (axis.roi_end - axis.roi_start) / static_cast<double>(out - 1)
                      : (axis.roi_start + axis.roi_end) / 2);
        break;
      case CoordinateMode::kTfHalfPixelForNn:
        at = (d + 0.5) / s;
        break;
    }
    if (o.coordinates == CoordinateMode::kTfCropAndResize &&
        (at < 0 || at > static_cast<double>(in - 1))) {
      result.push_back(static_cast<double>(o.extrapolation_value));
      continue;
    }
    if (o.mode == kNearest) {
      const double v = static_cast<double>(static_cast<float>(at));
      double pick = 0;
      switch (o.nearest) {
        case NearestMode::kRoundPreferFloor:
          pick = v == std::floor(v) + 0.5 ? std::floor(v) : std::round(v);
          break;
        case NearestMode::kRoundPreferCeil:
          pick = std::floor(v + 0.5);
          break;
        case NearestMode::kFloor:
          pick = std::floor(v);
          break;
        case NearestMode::kCeil:
          pick = std::ceil(v);
          break;
      }
      result.push_back(
          data[static_cast<size_t>(std::clamp<double>(pick, 0, static_cast<double>(in - 1)))]);
      continue;
    }
    const int64_t reach = static_cast<int64_t>(std::ceil(2 / stretch)) + 2;
    double total = 0;
    double value = 0;
    const int64_t centre = static_cast<int64_t>(std::floor(at));
    for (int64_t i = centre - reach; i <= centre + reach; ++i) {
      if (o.exclude_outside && (i < 0 || i >= in)) continue;
      const double w = filter((static_cast<double>(i) - at) * stretch);
      total += w;
      value += w * data[static_cast<size_t>(std::clamp<int64_t>(i, 0, in - 1))];
    }
    result.push_back(value / total);
  }
  return result;
}

// All axes, one after the other.
std::vector<double> Everywhere(const Shape& in, const Shape& out,
                               const std::vector<ResizeAxis>& axes, const ResizeOptions& o,
                               std::vector<double> x) {
  Shape shape = in;
  for (int k = 0; k < in.rank(); ++k) {
    // An axis that stays is the identity in exact arithmetic, and taken as such (resize.h).
    const ResizeAxis& axis = axes[static_cast<size_t>(k)];
    if (in[k] == out[k] && axis.scale == 1 && axis.roi_start == 0 && axis.roi_end == 1) continue;
    const int64_t outer = shape.Elements(0, k);
    const int64_t inner = shape.Elements(k + 1, shape.rank());
    const int64_t n = shape[k];
    shape[k] = out[k];
    std::vector<double> y(static_cast<size_t>(shape.elements()));
    for (int64_t p = 0; p < outer; ++p) {
      for (int64_t i = 0; i < inner; ++i) {
        std::vector<double> line;
        for (int64_t j = 0; j < n; ++j)
          line.push_back(x[static_cast<size_t>((p * n + j) * inner + i)]);
        const std::vector<double> r = Axis(line, out[k], axis, o);
        for (int64_t j = 0; j < out[k]; ++j) {
          y[static_cast<size_t>((p * out[k] + j) * inner + i)] = r[static_cast<size_t>(j)];
        }
      }
    }
    x = y;
  }
  return x;
}

struct Case {
  Shape in, out;
  std::vector<ResizeAxis> axes;
};

std::vector<Case> Cases() {
  return {{{7}, {19}, {{19.0 / 7}}},
          {{19}, {7}, {{7.0 / 19}}},
          {{1, 2, 5, 6}, {1, 2, 10, 12}, {{1}, {1}, {2}, {2}}},
          {{2, 3, 9, 33}, {2, 3, 4, 20}, {{1}, {1}, {0.5}, {static_cast<double>(0.62f)}}},
          {{2, 8, 9, 5}, {2, 20, 4, 5}, {{1}, {2.5}, {4.0 / 9}, {1}}},      // channels last
          {{3, 4, 5, 6}, {6, 2, 5, 9}, {{2}, {0.5}, {1}, {1.5}}},           // three, one apart
          {{2, 3, 4, 5}, {3, 4, 5, 7}, {{1.5}, {4.0 / 3}, {1.25}, {1.4}}},  // all
          {{4, 3000}, {7, 3000}, {{1.75}, {1}}},                            // long plain rows
          {{3, 1, 4}, {3, 5, 4}, {{1}, {5}, {1}}},
          {{2, 6, 130}, {2, 1, 1}, {{1}, {1.0 / 6}, {1.0 / 130}}}};
}

template <class T>
void CheckTyped(const Case& c, const ResizeOptions& o) {
  const size_t n = static_cast<size_t>(c.in.elements());
  const std::vector<T> x = RandomValues<T>(n, 3);
  const std::vector<double> want =
      Everywhere(c.in, c.out, c.axes, o, std::vector<double>(x.begin(), x.end()));
  const ResizePlan plan = PlanOf(c.in, c.out, c.axes, o);
  const std::vector<T> y = RunTeams<T>(want.size(), [&](Team& team, T* to) {
    std::vector<std::byte> workspace(ResizeWorkspaceBytes(plan, kDTypeOf<T>, team.size()),
                                     std::byte{0xff});
    Resize(plan, kDTypeOf<T>, x.data(), to, workspace.data(), team);
  });
  // Every axis forms sums of |weights| <= 2 over values below 16, each product and sum rounding.
  const double unit = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  const double out_unit = std::is_same_v<T, F16>    ? 0x1p-11
                          : std::is_same_v<T, BF16> ? 0x1p-8
                                                    : unit;
  for (size_t i = 0; i < want.size(); ++i) {
    const double got = static_cast<double>(y[i]);
    if constexpr (std::is_integral_v<T>) {
      const double low = static_cast<double>(std::numeric_limits<T>::lowest());
      const double high = static_cast<double>(std::numeric_limits<T>::max());
      const double clamped = std::clamp(want[i], low, high);
      if (std::fabs(clamped - std::nearbyint(clamped)) < 1e-6) {
        ASSERT_NEAR(got, clamped, 1 + 1e-6);
      } else {
        ASSERT_EQ(got, std::trunc(clamped)) << want[i];
      }
    } else if (o.mode == kNearest) {
      ASSERT_EQ(got, want[i]) << c.in.ToString() << " at " << i;
    } else {
      ASSERT_NEAR(got, want[i], 4 * 40 * 16 * unit + out_unit * std::fabs(want[i]))
          << c.in.ToString() << " to " << c.out.ToString() << " at " << i << " "
          << Name(kDTypeOf<T>);
    }
  }
}

TEST(Resize, EveryMode) {
  ForEachTarget([&] {
    for (const Case& c : Cases()) {
      for (ResizeMode mode : {kNearest, kLinear, kCubic}) {
        for (CoordinateMode at :
             {CoordinateMode::kHalfPixel, CoordinateMode::kHalfPixelSymmetric,
              CoordinateMode::kPytorchHalfPixel, CoordinateMode::kAsymmetric,
              CoordinateMode::kAlignCorners, CoordinateMode::kTfHalfPixelForNn}) {
          CheckTyped<float>(c, {.mode = mode, .coordinates = at});
        }
        if (mode == kNearest) {
          for (NearestMode n :
               {NearestMode::kRoundPreferCeil, NearestMode::kFloor, NearestMode::kCeil}) {
            CheckTyped<float>(c, {.coordinates = CoordinateMode::kAsymmetric, .nearest = n});
          }
          continue;
        }
        CheckTyped<float>(c, {.mode = mode, .antialias = true});
        CheckTyped<float>(c, {.mode = mode, .cubic_coeff_a = -0.5f, .exclude_outside = true});
        CheckTyped<float>(c, {.mode = mode, .exclude_outside = true, .antialias = true});
      }
    }
  });
}

TEST(Resize, CropEveryMode) {
  for (Case c : Cases()) {
    for (size_t k = 0; k < c.axes.size(); ++k) {
      if (c.in[static_cast<int>(k)] == c.out[static_cast<int>(k)]) continue;
      c.axes[k].roi_start = 0.2;
      c.axes[k].roi_end = k % 2 == 0 ? 1.3 : 0.9;
    }
    for (ResizeMode mode : {kNearest, kLinear, kCubic}) {
      const ResizeOptions o = {.mode = mode,
                               .coordinates = CoordinateMode::kTfCropAndResize,
                               .extrapolation_value = -3.5f};
      CheckTyped<float>(c, o);
      CheckTyped<double>(c, o);
    }
  }
}

TEST(Resize, EveryType) {
  ForEachTarget([&] {
    for (const Case& c : Cases()) {
      for (ResizeMode mode : {kNearest, kLinear, kCubic}) {
        const ResizeOptions o = {.mode = mode};
        CheckTyped<double>(c, o);
        CheckTyped<F16>(c, o);
        CheckTyped<BF16>(c, o);
        CheckTyped<int8_t>(c, o);
        CheckTyped<uint8_t>(c, o);
        CheckTyped<int32_t>(c, o);
        CheckTyped<int64_t>(c, o);
      }
    }
  });
}

TEST(Resize, IntegersClampAndTruncate) {
  // Cubic overshoots past both ends of u8.
  const uint8_t x[4] = {0, 255, 255, 0};
  const ResizePlan plan = PlanOf({4}, {8}, {{2}}, {.mode = kCubic});
  std::vector<std::byte> workspace(ResizeWorkspaceBytes(plan, DType::kU8, 1));
  uint8_t y[8];
  Resize(plan, DType::kU8, x, y, workspace.data(), SharedTeam(1));
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[3], 255);
  EXPECT_EQ(y[4], 255);
  // A third of 3 and two thirds of 3 are 3, though the weights do not sum to 1 exactly.
  const uint8_t three[2] = {3, 3};
  const ResizePlan thirds = PlanOf({2}, {6}, {{3}}, {.mode = kLinear});
  std::vector<std::byte> space(ResizeWorkspaceBytes(thirds, DType::kU8, 1));
  uint8_t z[6];
  Resize(thirds, DType::kU8, three, z, space.data(), SharedTeam(1));
  for (uint8_t v : z) EXPECT_EQ(v, 3);
}

TEST(Resize, PlansAndErrors) {
  // Nothing to do: a copy.
  const ResizePlan same = PlanOf({2, 3}, {2, 3}, {{1}, {1}}, {.mode = kCubic});
  EXPECT_TRUE(same.tables.empty());
  EXPECT_EQ(ResizeWorkspaceBytes(same, DType::kF32, 4), 0u);
  const Floats x = Count(6);
  Floats y(6);
  Resize(same, DType::kF32, x.data(), y.data(), nullptr, SharedTeam(2));
  EXPECT_EQ(y, x);
  // Axes that stay are merged around the ones that do not.
  const ResizePlan nhwc = PlanOf({2, 3, 4, 5, 6}, {2, 3, 8, 5, 6}, {{1}, {1}, {2}, {1}, {1}}, {});
  EXPECT_EQ(nhwc.dims.size(), 3u);
  EXPECT_EQ(nhwc.tables.size(), 1u);
  // Empty in, empty out.
  const ResizePlan empty = PlanOf({0, 3}, {0, 6}, {{1}, {2}}, {.mode = kLinear});
  Resize(empty, DType::kF32, nullptr, nullptr, nullptr, SharedTeam(1));

  const auto error = [](const Shape& in, const Shape& out, const std::vector<ResizeAxis>& axes) {
    const Result<ResizePlan> r = MakeResizePlan(in, out, axes, {});
    return r.ok() ? std::string("ok") : r.error().message();
  };
  EXPECT_EQ(error({0}, {2}, {{1}}), "resize: axis 0 is empty but 2 long after");
  EXPECT_EQ(error({2}, {2}, {{0}}), "resize: scale 0 of axis 0 is not positive");
  EXPECT_NE(error({2}, {2}, {{std::nan("")}}), "ok");
  EXPECT_NE(error({2}, {int64_t{1} << 32}, {{1e9}}), "ok");
}

}  // namespace
}  // namespace parallax::kernels
