#include "kernels/conv/conv.h"

#include <string>
#include <vector>

#include "kernels/conv/conv_transpose.h"
#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {
namespace {

using testing::ForEachTarget;
using testing::GuardedBytes;
using testing::RandomFloats;
using testing::Sum;
using testing::TeamOf;

// One dimension of a case.
struct Axis {
  int64_t in, kernel, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  int64_t output_padding = 0;  // ConvTranspose
};

ConvShape Shape(int64_t batch, int64_t groups, int64_t ic, int64_t oc, std::vector<Axis> axes) {
  ConvShape s{.batch = batch, .groups = groups, .in_channels = ic, .out_channels = oc};
  s.rank = static_cast<int>(axes.size());
  for (int i = 0; i < s.rank; ++i) {
    const Axis& a = axes[static_cast<size_t>(i)];
    s.in[i] = a.in;
    s.kernel[i] = a.kernel;
    s.strides[i] = a.stride;
    s.dilations[i] = a.dilation;
    s.pads_begin[i] = a.pad_begin;
    const int64_t span = a.in + a.pad_begin + a.pad_end - ((a.kernel - 1) * a.dilation + 1);
    s.out[i] = span < 0 ? 0 : span / a.stride + 1;
  }
  return s;
}

ConvShape TransposeShape(int64_t batch, int64_t groups, int64_t ic, int64_t oc,
                         std::vector<Axis> axes) {
  ConvShape s = Shape(batch, groups, ic, oc, axes);
  for (int i = 0; i < s.rank; ++i) {
    const Axis& a = axes[static_cast<size_t>(i)];
    s.out[i] = (a.in - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 + a.output_padding -
               a.pad_begin - a.pad_end;
  }
  return s;
}

std::string Describe(const ConvShape& s) {
  std::string text = std::to_string(s.batch) + "x" + std::to_string(s.in_channels) + "->" +
                     std::to_string(s.out_channels) + " g" + std::to_string(s.groups);
  for (int i = 0; i < s.rank; ++i) {
    text += " [" + std::to_string(s.in[i]) + " k" + std::to_string(s.kernel[i]) + " s" +
            std::to_string(s.strides[i]) + " d" + std::to_string(s.dilations[i]) + " p" +
            std::to_string(s.pads_begin[i]) + " o" + std::to_string(s.out[i]) + "]";
  }
  return text;
}

// Coordinates of a row-major position.
std::vector<int64_t> Coordinates(int64_t at, const int64_t* extents, int rank) {
  std::vector<int64_t> c(static_cast<size_t>(rank));
  for (int i = rank - 1; i >= 0; --i) {
    c[static_cast<size_t>(i)] = at % extents[i];
    at /= extents[i];
  }
  return c;
}

int64_t Position(const std::vector<int64_t>& c, const int64_t* extents) {
  int64_t at = 0;
  for (size_t i = 0; i < c.size(); ++i) at = at * extents[i] + c[i];
  return at;
}

struct Operands {
  std::vector<float> input, weights, bias, residual;
  Epilogue epilogue;
  bool with_bias = false;
};

Operands MakeOperands(const ConvShape& s, int64_t weights, int variant) {
  Operands o;
  o.input = RandomFloats(s.batch * s.in_channels * s.InSize(), 1);
  o.weights = RandomFloats(weights, 2);
  o.bias = RandomFloats(s.out_channels, 3);
  o.residual = RandomFloats(s.batch * s.out_channels * s.OutSize(), 4);
  o.with_bias = variant % 2 == 0;
  if (variant % 3 == 1) o.epilogue = {.activation = Activation::kRelu};
  if (variant % 3 == 2) o.epilogue = {.activation = Activation::kClip, .lo = -0.5f, .hi = 0.75f};
  if (variant % 4 == 3) o.epilogue.residual = o.residual.data();
  return o;
}

// Adds every product of the convolution to its output's sum.
std::vector<Sum> ConvReference(const ConvShape& s, const Operands& o, bool transpose) {
  const int64_t in_size = s.InSize(), out_size = s.OutSize(), taps = s.KernelSize();
  const int64_t icg = s.in_channels / s.groups, ocg = s.out_channels / s.groups;
  std::vector<Sum> sums(static_cast<size_t>(s.batch * s.out_channels * out_size));
  // The convolution maps output positions to input positions; its transpose the other way round.
  const int64_t* from = transpose ? s.in : s.out;
  const int64_t* to = transpose ? s.out : s.in;
  for (int64_t f = 0; f < (transpose ? in_size : out_size); ++f) {
    const std::vector<int64_t> at = Coordinates(f, from, s.rank);
    for (int64_t t = 0; t < taps; ++t) {
      std::vector<int64_t> tap = Coordinates(t, s.kernel, s.rank);
      bool inside = true;
      for (int i = 0; i < s.rank; ++i) {
        const auto a = static_cast<size_t>(i);
        tap[a] = at[a] * s.strides[i] + tap[a] * s.dilations[i] - s.pads_begin[i];
        inside = inside && tap[a] >= 0 && tap[a] < to[i];
      }
      if (!inside) continue;
      const int64_t g = Position(tap, to);
      const int64_t in = transpose ? f : g, out = transpose ? g : f;
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t oc = 0; oc < s.out_channels; ++oc) {
          for (int64_t c = 0; c < icg; ++c) {
            const int64_t ic = oc / ocg * icg + c;
            const int64_t w =
                transpose ? (ic * ocg + oc % ocg) * taps + t : (oc * icg + c) * taps + t;
            sums[static_cast<size_t>((n * s.out_channels + oc) * out_size + out)].Add(
                double{o.weights[static_cast<size_t>(w)]} *
                o.input[static_cast<size_t>((n * s.in_channels + ic) * in_size + in)]);
          }
        }
      }
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (o.with_bias) {
      sums[i].Add(o.bias[i / static_cast<size_t>(out_size) % static_cast<size_t>(s.out_channels)]);
    }
    if (o.epilogue.residual != nullptr) sums[i].Add(o.residual[i]);
  }
  return sums;
}

double Activate(const Epilogue& e, double v) {
  if (e.activation == Activation::kRelu) return std::max(v, 0.0);
  if (e.activation == Activation::kClip) return std::min<double>(std::max<double>(v, e.lo), e.hi);
  return v;
}

// Runs `run(packed, output, workspace, team)` on every target and team and compares.
template <class Plan, class Pack, class Workspace, class Run>
void Compare(const ConvShape& s, const Operands& o, const std::vector<Sum>& want, Plan plan_of,
             Pack pack, Workspace workspace_bytes, Run run) {
  ForEachTarget([&](const char*) {
    const auto plan = plan_of(s);
    SCOPED_TRACE(plan.name());
    GuardedBytes source(o.weights.size() * 4, 1), packed(plan.packed_weight_bytes);
    if (!o.weights.empty()) memcpy(source.get(), o.weights.data(), o.weights.size() * 4);
    pack(plan, source.get(), packed.get());
    packed.CheckGuards();
    std::vector<float> first;
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(threads);
      GuardedBytes workspace(workspace_bytes(plan, threads)), out(want.size() * 4, 4);
      run(plan, packed.get(), out.floats(), workspace.get(), TeamOf(threads));
      workspace.CheckGuards();
      out.CheckGuards();
      if (threads == 1) {
        first.assign(out.floats(), out.floats() + want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_LE(std::abs(first[i] - Activate(o.epilogue, want[i].value)), want[i].Bound())
              << "at " << i << ", got " << first[i];
        }
      } else if (!want.empty()) {
        ASSERT_EQ(memcmp(first.data(), out.get(), first.size() * 4), 0) << "team changes bits";
      }
    }
  });
}

void Check(const ConvShape& s, int variant, ConvAlgorithm algorithm) {
  SCOPED_TRACE(Describe(s) + " variant " + std::to_string(variant));
  ASSERT_EQ(PlanConv(s).algorithm, algorithm) << PlanConv(s).name();
  const Operands o =
      MakeOperands(s, s.out_channels * (s.in_channels / s.groups) * s.KernelSize(), variant);
  Compare(s, o, ConvReference(s, o, false), PlanConv, PackConvWeights, ConvWorkspaceBytes,
          [&](const ConvPlan& plan, const void* packed, float* out, void* workspace, Team& team) {
            Conv(plan, o.input.data(), packed, o.with_bias ? o.bias.data() : nullptr, o.epilogue,
                 out, workspace, team);
          });
}

TEST(Conv, Pointwise) {
  int variant = 0;
  for (const int64_t ic : {1, 3, 20, 300}) {
    for (const int64_t oc : {1, 8, 19}) {
      Check(Shape(2, 1, ic, oc, {{.in = 7, .kernel = 1}, {.in = 9, .kernel = 1}}), variant++,
            ConvAlgorithm::kPointwise);
    }
  }
  Check(Shape(2, 4, 8, 12, {{.in = 7, .kernel = 1}, {.in = 9, .kernel = 1}}), 0,
        ConvAlgorithm::kPointwise);
  Check(Shape(1, 3, 6, 9, {{.in = 50, .kernel = 1}}), 2, ConvAlgorithm::kPointwise);
  Check(Shape(1, 1, 30, 40, {{.in = 1, .kernel = 1}, {.in = 1, .kernel = 1}}), 3,
        ConvAlgorithm::kPointwise);
  Check(Shape(2, 2, 4, 4,
              {{.in = 3, .kernel = 1},
               {.in = 2, .kernel = 1},
               {.in = 2, .kernel = 1},
               {.in = 3, .kernel = 1}}),
        1, ConvAlgorithm::kPointwise);
}

// Kernel, stride, dilation and asymmetric padding against row lengths around the vector widths.
TEST(Conv, ImplicitGemm2d) {
  int variant = 0;
  for (const int64_t kernel : {1, 2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2, 3}) {
        for (const int64_t width : {5, 16, 21, 50}) {
          if (kernel == 1 && stride == 1) continue;
          const Axis rows{.in = 9,
                          .kernel = kernel,
                          .stride = stride,
                          .dilation = 1,
                          .pad_begin = kernel / 2,
                          .pad_end = 1};
          const Axis columns{.in = width,
                             .kernel = kernel,
                             .stride = stride,
                             .dilation = dilation,
                             .pad_begin = dilation,
                             .pad_end = kernel - 1 + 8 * (dilation / 3)};
          Check(Shape(1, 1, 5, 9, {rows, columns}), variant++, ConvAlgorithm::kImplicitGemm);
        }
      }
    }
  }
}

TEST(Conv, ImplicitGemmBlocks) {
  const Axis three{.in = 20, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  // Several blocks of input channels and several tasks of output channels.
  Check(Shape(1, 1, 200, 140, {three, three}), 3, ConvAlgorithm::kImplicitGemm);
  // Many rows and columns.
  const Axis wide{.in = 70, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1};
  const Axis wider{.in = 3300, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1};
  Check(Shape(1, 1, 3, 16, {wide, wide}), 1, ConvAlgorithm::kImplicitGemm);
  Check(Shape(1, 1, 2, 3, {{.in = 4, .kernel = 3, .pad_begin = 1, .pad_end = 1}, wider}), 7,
        ConvAlgorithm::kImplicitGemm);
  // Groups and images.
  Check(Shape(3, 4, 16, 24, {three, wide}), 2, ConvAlgorithm::kImplicitGemm);
  Check(Shape(2, 5, 10, 35, {three, three}), 0, ConvAlgorithm::kImplicitGemm);
  // One channel to many: more outputs a group than the depthwise path takes.
  Check(Shape(1, 1, 1, 7, {three, three}), 5, ConvAlgorithm::kImplicitGemm);
  // A patch embedding: 16 phases, one tap each.
  const Axis patch{.in = 32, .kernel = 4, .stride = 4};
  Check(Shape(1, 1, 3, 20, {patch, patch}), 4, ConvAlgorithm::kImplicitGemm);
  // Stride above the kernel, kernel above the input.
  Check(Shape(1, 1, 3, 5,
              {{.in = 17, .kernel = 2, .stride = 5}, {.in = 40, .kernel = 3, .stride = 7}}),
        1, ConvAlgorithm::kImplicitGemm);
  Check(Shape(1, 1, 3, 5,
              {{.in = 3, .kernel = 7, .pad_begin = 3, .pad_end = 3},
               {.in = 2, .kernel = 7, .pad_begin = 4, .pad_end = 5}}),
        2, ConvAlgorithm::kImplicitGemm);
}

TEST(Conv, OneAndThreeDimensions) {
  Check(Shape(2, 1, 8, 12, {{.in = 300, .kernel = 3, .pad_begin = 1, .pad_end = 1}}), 1,
        ConvAlgorithm::kImplicitGemm);
  Check(Shape(1, 2, 6, 14, {{.in = 5000, .kernel = 10, .stride = 5, .dilation = 2}}), 2,
        ConvAlgorithm::kImplicitGemm);
  Check(Shape(1, 1, 80, 24, {{.in = 100, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1}}),
        3, ConvAlgorithm::kImplicitGemm);
  Check(Shape(1, 1, 1, 16, {{.in = 4000, .kernel = 400, .stride = 160}}), 0,
        ConvAlgorithm::kImplicitGemm);
  int variant = 0;
  for (const int64_t stride : {1, 2}) {
    for (const int64_t dilation : {1, 2}) {
      const Axis a{.in = 9,
                   .kernel = 3,
                   .stride = stride,
                   .dilation = dilation,
                   .pad_begin = 1,
                   .pad_end = 2};
      Check(Shape(2, 1, 3, 10, {a, a, a}), variant++, ConvAlgorithm::kImplicitGemm);
      Check(Shape(1, 2, 4, 6, {{.in = 5, .kernel = 2, .stride = 2}, a, a}), variant++,
            ConvAlgorithm::kImplicitGemm);
    }
  }
  Check(Shape(1, 3, 3, 3,
              {{.in = 4, .kernel = 3, .pad_begin = 1, .pad_end = 1},
               {.in = 6, .kernel = 3},
               {.in = 19, .kernel = 3, .pad_begin = 1}}),
        1, ConvAlgorithm::kImplicitGemm);
}

TEST(Conv, Depthwise) {
  int variant = 0;
  for (const int64_t kernel : {1, 3, 5, 7}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t width : {3, 7, 14, 16, 33, 56, 112}) {
        if (kernel == 1 && stride == 1) continue;
        const Axis rows{.in = 13,
                        .kernel = kernel,
                        .stride = stride,
                        .pad_begin = kernel / 2,
                        .pad_end = kernel / 2};
        const Axis columns{.in = width,
                           .kernel = kernel,
                           .stride = stride,
                           .pad_begin = kernel / 2,
                           .pad_end = kernel};
        Check(Shape(1, 6, 6, 6, {rows, columns}), variant++, ConvAlgorithm::kDepthwise);
      }
    }
  }
  const Axis dilated{.in = 40, .kernel = 3, .dilation = 4, .pad_begin = 2, .pad_end = 5};
  Check(Shape(2, 3, 3, 3, {dilated, dilated}), 0, ConvAlgorithm::kDepthwise);
  Check(Shape(2, 3, 3, 9, {dilated, dilated}), 3, ConvAlgorithm::kDepthwise);  // multiplier 3
  // 1-d, also longer than a block; a plane larger than one; one channel.
  Check(Shape(2, 5, 5, 5, {{.in = 77, .kernel = 5, .pad_begin = 4}}), 1, ConvAlgorithm::kDepthwise);
  Check(
      Shape(1, 2, 2, 4, {{.in = 5000, .kernel = 31, .stride = 2, .pad_begin = 15, .pad_end = 15}}),
      7, ConvAlgorithm::kDepthwise);
  const Axis large{.in = 150, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  Check(Shape(1, 2, 2, 2, {large, large}), 2, ConvAlgorithm::kDepthwise);
  Check(Shape(1, 1, 1, 1, {large, {.in = 31, .kernel = 3, .pad_begin = -2, .pad_end = 1}}), 3,
        ConvAlgorithm::kDepthwise);
}

TEST(Conv, Direct) {
  const Axis a{.in = 4, .kernel = 2, .stride = 2, .pad_begin = 1, .pad_end = 1};
  const Axis b{.in = 5, .kernel = 3, .dilation = 2, .pad_begin = 2, .pad_end = 1};
  for (int variant = 0; variant < 6; ++variant) {
    Check(Shape(2, 2, 4, 6, {a, b, a, b}), variant, ConvAlgorithm::kDirect);
  }
  Check(Shape(1, 1, 1, 5, {{.in = 3000, .kernel = 2000, .stride = 50}}), 3, ConvAlgorithm::kDirect);
}

TEST(Conv, ZeroExtents) {
  const Axis a{.in = 6, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  Check(Shape(0, 1, 3, 8, {a, a}), 0, ConvAlgorithm::kEmpty);
  Check(Shape(2, 1, 3, 8, {a, {.in = 1, .kernel = 3}}), 0, ConvAlgorithm::kEmpty);
  Check(Shape(1, 1, 3, 0, {a, a}), 0, ConvAlgorithm::kEmpty);
  // No input channels or an input without elements: only padding is seen.
  for (int variant = 0; variant < 4; ++variant) {
    Check(Shape(2, 1, 0, 8, {a, a}), variant, ConvAlgorithm::kImplicitGemm);
    Check(Shape(1, 1, 0, 3, {{.in = 6, .kernel = 1}}), variant, ConvAlgorithm::kPointwise);
    Check(Shape(1, 1, 2, 9, {a, {.in = 0, .kernel = 3, .pad_begin = 2, .pad_end = 3}}), variant,
          ConvAlgorithm::kImplicitGemm);
    Check(Shape(1, 2, 2, 2, {a, {.in = 0, .kernel = 3, .pad_begin = 2, .pad_end = 3}}), variant,
          ConvAlgorithm::kDepthwise);
  }
}

// The residual may be the output itself.
TEST(Conv, AccumulatesInPlace) {
  const Axis a{.in = 19, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  const Axis one{.in = 19, .kernel = 1};
  const Axis small{.in = 5, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  for (const ConvShape& s :
       {Shape(1, 1, 150, 9, {a, a}), Shape(1, 4, 4, 4, {a, a}), Shape(1, 1, 9, 5, {one, one}),
        Shape(1, 1, 2, 5, {small, small, small, small})}) {
    Operands o = MakeOperands(s, s.out_channels * (s.in_channels / s.groups) * s.KernelSize(), 3);
    const std::vector<Sum> want = ConvReference(s, o, false);
    Compare(s, o, want, PlanConv, PackConvWeights, ConvWorkspaceBytes,
            [&](const ConvPlan& plan, const void* packed, float* out, void* workspace, Team& team) {
              memcpy(out, o.residual.data(), o.residual.size() * 4);
              Epilogue e = o.epilogue;
              e.residual = out;
              Conv(plan, o.input.data(), packed, o.with_bias ? o.bias.data() : nullptr, e, out,
                   workspace, team);
            });
  }
}

void CheckTranspose(const ConvShape& s, int variant) {
  SCOPED_TRACE("transpose " + Describe(s) + " variant " + std::to_string(variant));
  const Operands o =
      MakeOperands(s, s.in_channels * (s.out_channels / s.groups) * s.KernelSize(), variant);
  Compare(s, o, ConvReference(s, o, true), PlanConvTranspose, PackConvTransposeWeights,
          ConvTransposeWorkspaceBytes,
          [&](const ConvTransposePlan& plan, const void* packed, float* out, void* workspace,
              Team& team) {
            ConvTranspose(plan, o.input.data(), packed, o.with_bias ? o.bias.data() : nullptr,
                          o.epilogue, out, workspace, team);
          });
}

TEST(ConvTranspose, StridesDilationsPads) {
  int variant = 0;
  for (const int64_t kernel : {1, 2, 3, 4}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2}) {
        const Axis rows{.in = 6,
                        .kernel = kernel,
                        .stride = stride,
                        .dilation = dilation,
                        .pad_begin = kernel / 2,
                        .pad_end = 0};
        const Axis columns{.in = 17,
                           .kernel = kernel,
                           .stride = stride,
                           .dilation = 1,
                           .pad_begin = 0,
                           .pad_end = kernel - 1,
                           .output_padding = stride - 1};
        CheckTranspose(TransposeShape(1, 1, 5, 7, {rows, columns}), variant++);
      }
    }
  }
}

TEST(ConvTranspose, RanksGroupsBlocks) {
  const Axis up{.in = 20, .kernel = 2, .stride = 2};
  CheckTranspose(TransposeShape(2, 1, 24, 1, {up, up}), 1);
  CheckTranspose(TransposeShape(2, 2, 40, 70, {up, up}), 2);
  const Axis large{.in = 90, .kernel = 4, .stride = 2, .pad_begin = 1, .pad_end = 1};
  CheckTranspose(TransposeShape(1, 1, 3, 5, {large, large}), 7);  // blocks of rows
  CheckTranspose(TransposeShape(1, 3, 6, 9, {{.in = 33, .kernel = 5, .stride = 3, .dilation = 2}}),
                 0);
  const Axis a{.in = 4, .kernel = 3, .stride = 2, .pad_begin = 1, .output_padding = 1};
  CheckTranspose(TransposeShape(1, 2, 4, 6, {a, up, a}), 3);
  CheckTranspose(TransposeShape(1, 1, 2, 3, {a, a, {.in = 3, .kernel = 2}, a}), 5);
  // Strides above the kernel leave gaps that only the bias fills; pads that crop.
  CheckTranspose(TransposeShape(1, 1, 3, 4,
                                {{.in = 5, .kernel = 2, .stride = 4},
                                 {.in = 9, .kernel = 3, .stride = 5, .pad_begin = 4}}),
                 2);
}

TEST(ConvTranspose, ZeroExtents) {
  const Axis a{.in = 4, .kernel = 3, .stride = 2};
  CheckTranspose(TransposeShape(0, 1, 3, 4, {a, a}), 0);
  CheckTranspose(TransposeShape(1, 1, 3, 0, {a, a}), 0);
  CheckTranspose(TransposeShape(2, 1, 0, 4, {a, a}), 2);
  ConvShape empty = TransposeShape(1, 1, 3, 4, {a, a});
  empty.in[0] = 0;
  CheckTranspose(empty, 2);
  empty.in[0] = 4;
  empty.in[1] = 0;
  CheckTranspose(empty, 7);
}

}  // namespace
}  // namespace parallax::kernels
