#include "kernels/conv/conv.h"

#include <utility>

#include "tests/kernels/conv_testing.h"
#include "tests/kernels/winograd_bound.h"

namespace parallax::kernels {
namespace {

void CheckConv(const ConvShape& s, const Operands& o, const std::vector<Sum>& want,
               const ConvOptions& options) {
  Compare(
      s, o, want, [&](const ConvShape& shape) { return PlanConv(shape, options); }, PackConvWeights,
      ConvWorkspaceBytes,
      [&](const ConvPlan& plan, const void* packed, float* out, void* workspace, Team& team) {
        Conv(plan, o.input.data(), packed, o.with_bias ? o.bias.data() : nullptr, o.epilogue, out,
             workspace, team);
      });
}

// The same with the input's channels cut into parts, each in the midst of a picture's pixels between
// channels that nobody may read.
void CheckSources(const ConvShape& joined, const Operands& o, const std::vector<Sum>& want,
                  const ConvOptions& options, int variant) {
  const int64_t parts = std::min<int64_t>(1 + variant % 4, joined.in_channels);
  ConvShape s = joined;
  s.source_count = static_cast<int>(parts);
  for (int64_t i = 0, begin = 0; i < parts; ++i) {
    // Of unequal sizes, with eights in common where there are enough.
    const int64_t left = s.in_channels - begin, equal = left / (parts - i);
    const int64_t channels = i + 1 == parts ? left : equal > 16 ? equal / 8 * 8 : equal;
    s.sources[i] = {channels, i % 3, channels + i % 3 + (variant + i) % 2};
    begin += channels;
  }
  if (!SupportsSources(s)) return;
  SCOPED_TRACE(std::to_string(parts) + " sources");
  const int64_t pixels = s.batch * s.InSize();
  std::vector<GuardedBytes> pictures;
  std::vector<const float*> inputs;
  int64_t begin = 0;
  for (int i = 0; i < s.source_count; ++i) {
    const ConvSource& from = s.sources[i];
    pictures.emplace_back(static_cast<size_t>(pixels * from.pixel) * 4, 4);  // full of NaN
    for (int64_t p = 0; p < pixels; ++p) {
      std::copy_n(o.input.data() + p * s.in_channels + begin, from.channels,
                  pictures.back().floats() + p * from.pixel + from.first);
    }
    begin += from.channels;
  }
  for (GuardedBytes& p : pictures) inputs.push_back(p.floats());
  Compare(
      s, o, want, [&](const ConvShape& shape) { return PlanConv(shape, options); }, PackConvWeights,
      ConvWorkspaceBytes,
      [&](const ConvPlan& plan, const void* packed, float* out, void* workspace, Team& team) {
        Conv(plan, inputs.data(), packed, o.with_bias ? o.bias.data() : nullptr, o.epilogue, out,
             workspace, team);
      });
}

// Both layouts, and Winograd against what its definition bounds.
void Check(ConvShape s, int variant, ConvAlgorithm algorithm) {
  SCOPED_TRACE(Describe(s) + " variant " + std::to_string(variant));
  ASSERT_EQ(PlanConv(s).algorithm, algorithm) << PlanConv(s).name();
  Operands o =
      MakeOperands(s, s.out_channels * (s.in_channels / s.groups) * s.KernelSize(), variant);
  std::vector<Sum> want = ConvReference(s, o, false);
  CheckConv(s, o, want, {});
  if (::testing::Test::HasFatalFailure() || !SupportsChannelsLast(s)) return;
  const std::vector<float> first = o.input;
  s.layout = ConvLayout::kChannelsLast;
  o.input = ChannelsLast(o.input, s.in_channels, s.InSize());
  o.residual = ChannelsLast(o.residual, s.out_channels, s.OutSize());
  if (o.epilogue.residual != nullptr) o.epilogue.residual = o.residual.data();
  want = ChannelsLast(want, s.out_channels, s.OutSize());
  CheckConv(s, o, want, {.precise = true});
  CheckSources(s, o, want, {.precise = true}, variant);
  if (s.in_channels <= 8) {
    ConvShape planar = s;
    planar.layout = ConvLayout::kFirstToLast;
    const std::vector<float> last = std::exchange(o.input, first);
    CheckConv(planar, o, want, {});
    o.input = last;
  }
  const ConvAlgorithm chosen = PlanConv(s).algorithm;
  if (chosen != ConvAlgorithm::kWinograd4 && chosen != ConvAlgorithm::kWinograd2) return;
  BoundByWinograd(s, o, chosen == ConvAlgorithm::kWinograd4 ? 4 : 2, want);
  CheckConv(s, o, want, {});
  CheckSources(s, o, want, {.algorithm = chosen}, variant);
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

// Channels last, enough of them that the taps along a row are read as one: pads of each kind, rows
// around the width at which windows at the edges are too many for that, several images in a block.
TEST(Conv, RowsOfTapsAsOne) {
  int variant = 0;
  for (const int64_t kernel : {2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t width : {4, 8, 9, 13, 16, 41}) {
        for (const int64_t pad : {0, 1, 3}) {
          const Axis rows{.in = 6, .kernel = 3, .stride = 2, .pad_begin = pad, .pad_end = 1};
          const Axis columns{.in = width,
                             .kernel = kernel,
                             .stride = stride,
                             .pad_begin = pad,
                             .pad_end = variant % 4};
          if (width + pad + variant % 4 < kernel) continue;
          Check(Shape(2, 1, 8 + variant % 3 * 6, 9, {rows, columns}), variant,
                ConvAlgorithm::kImplicitGemm);
          ++variant;
        }
      }
    }
  }
  const Axis three{.in = 20, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  const Axis five{.in = 40, .kernel = 5, .stride = 2, .pad_begin = 2, .pad_end = 2};
  Check(Shape(2, 1, 40, 17, {five}), 1, ConvAlgorithm::kImplicitGemm);
  Check(Shape(1, 1, 12, 70, {{.in = 3, .kernel = 2}, three, five}), 2,
        ConvAlgorithm::kImplicitGemm);
  // A sequence stored as a picture of one column; weights that no L2 holds, and that several panels are.
  Check(Shape(2, 1, 72, 150, {five, {.in = 1, .kernel = 1}}), 3, ConvAlgorithm::kImplicitGemm);
  Check(Shape(1, 1, 130, 300, {five, three}), 0, ConvAlgorithm::kImplicitGemm);
}

// Kernels of one row or one column, images of one row of outputs, of which a block holds several, and
// pads that crop.
TEST(Conv, RowsOfTapsOfFlatKernels) {
  int variant = 0;
  const Axis one{.in = 5, .kernel = 1}, three{.in = 5, .kernel = 3, .pad_begin = 2, .pad_end = 1};
  for (const int64_t width : {7, 8, 9, 16, 33}) {
    for (const int64_t begin : {-2, -1, 0, 1, 2}) {
      for (const int64_t end : {-1, 0, 2}) {
        const Axis columns{.in = width, .kernel = 3, .pad_begin = begin, .pad_end = end};
        const Axis single{.in = width, .kernel = 1, .pad_begin = begin, .pad_end = end};
        Check(Shape(3, 1, 9, 5, {one, columns}), variant++, ConvAlgorithm::kImplicitGemm);
        if (begin == 0 && end == 0) continue;
        Check(Shape(2, 1, 9, 5, {three, single}), variant++, ConvAlgorithm::kImplicitGemm);
      }
    }
  }
  for (const int64_t stride : {1, 2, 3}) {
    const Axis five{.in = 26, .kernel = 5, .stride = stride, .pad_begin = 3, .pad_end = 1};
    const Axis row{.in = 1, .kernel = 5, .stride = stride, .pad_begin = 2, .pad_end = 2};
    Check(Shape(2, 1, 8, 6, {five, five}), variant++, ConvAlgorithm::kImplicitGemm);
    Check(Shape(9, 1, 8, 6, {row, five}), variant++, ConvAlgorithm::kImplicitGemm);
    Check(Shape(9, 1, 12, 6, {five}), variant++, ConvAlgorithm::kImplicitGemm);
    Check(Shape(2, 1, 8, 6, {row, row, five}), variant++, ConvAlgorithm::kImplicitGemm);
  }
  // Rows of the kernel that lie in the padding throughout.
  const Axis far{.in = 2, .kernel = 3, .pad_begin = 5, .pad_end = 6};
  Check(Shape(2, 1, 8, 6, {far, {.in = 30, .kernel = 3, .pad_begin = 1, .pad_end = 1}}), 0,
        ConvAlgorithm::kImplicitGemm);
}

// Planes to channels last: rows narrower than a register tile and up to a few of them, every stride
// with code of its own and one without, panels of one to three vectors of which the last is partial.
TEST(Conv, Stem) {
  constexpr int64_t kOut[] = {1, 5, 16, 17, 32, 48, 96};
  int variant = 0;
  for (int64_t width = 1; width <= 40; ++width) {
    for (const int64_t stride : {1, 2, 3, 4}) {
      const int64_t kernel = 1 + (variant + width) % 7, dilation = 1 + variant % 3;
      const int64_t begin = variant % 6 - 2, end = (variant / 6 + stride) % 5 - 1;
      Axis columns{.in = 1,
                   .kernel = kernel,
                   .stride = stride,
                   .dilation = dilation,
                   .pad_begin = begin,
                   .pad_end = end};
      columns.in = (width - 1) * stride + (kernel - 1) * dilation + 1 - begin - end;
      if (columns.in < 1) {  // the pads alone are wider
        columns.pad_end = begin < 0 ? -begin : 0;
        columns.in = (width - 1) * stride + (kernel - 1) * dilation + 1 - begin - columns.pad_end;
      }
      columns.in =
          std::max<int64_t>(columns.in, 1) + variant % 2 * (stride - 1);  // not all is read
      const Axis rows{.in = 12,
                      .kernel = 1 + variant % 7,
                      .stride = 1 + variant / 7 % 4,
                      .dilation = 1 + variant / 5 % 3,
                      .pad_begin = variant / 3 % 5 - 1,
                      .pad_end = 12 - variant / 4 % 5};
      ConvShape s = Shape(1 + variant % 2, 1, 1 + variant % 4, kOut[variant % 7], {rows, columns});
      s.layout = ConvLayout::kFirstToLast;
      SCOPED_TRACE(Describe(s));
      ASSERT_EQ(PlanConv(s).algorithm, ConvAlgorithm::kStem);
      // Residuals, clamps and biases change at another pace than the shape does.
      const int operands = variant + variant / 8;
      Operands o = MakeOperands(s, s.out_channels * s.in_channels * s.KernelSize(), operands);
      const std::vector<Sum> want =
          ChannelsLast(ConvReference(s, o, false), s.out_channels, s.OutSize());
      o.residual = ChannelsLast(o.residual, s.out_channels, s.OutSize());
      if (o.epilogue.residual != nullptr) o.epilogue.residual = o.residual.data();
      CheckConv(s, o, want, {});
      if (HasFatalFailure()) return;
      ++variant;
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
  // Several vectors of channels; rows in pairs, one left over, pads of which whole rows are made.
  for (const int64_t width : {1, 6, 7, 14, 16, 25}) {
    for (const int64_t stride : {1, 2}) {
      const Axis rows{.in = 6, .kernel = 3, .stride = stride, .pad_begin = 4, .pad_end = 3};
      const Axis columns{.in = width, .kernel = 3, .stride = stride, .pad_begin = 1, .pad_end = 4};
      Check(Shape(2, 40, 40, 40, {rows, columns}), variant++, ConvAlgorithm::kDepthwise);
    }
  }
  // Pictures so small that their channels are cut.
  for (const int64_t channels : {576, 700}) {
    const Axis small{.in = 7, .kernel = 3, .pad_begin = 1, .pad_end = 1};
    Check(Shape(2, channels, channels, channels, {small, small}), variant++,
          ConvAlgorithm::kDepthwise);
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
    Compare(
        s, o, want, [](const ConvShape& shape) { return PlanConv(shape); }, PackConvWeights,
        ConvWorkspaceBytes,
        [&](const ConvPlan& plan, const void* packed, float* out, void* workspace, Team& team) {
          memcpy(out, o.residual.data(), o.residual.size() * 4);
          Epilogue e = o.epilogue;
          e.residual = out;
          Conv(plan, o.input.data(), packed, o.with_bias ? o.bias.data() : nullptr, e, out,
               workspace, team);
        });
  }
}

}  // namespace
}  // namespace parallax::kernels
