// Convolutions whose input channels lie in parts of one picture or in several pictures: what is right is
// the sum in f64 over a joined copy.
#include <limits>
#include <string>

#include "kernels/conv/conv.h"
#include "kernels/conv/conv_paths.h"
#include "tests/kernels/conv_testing.h"
#include "tests/kernels/winograd_bound.h"

namespace parallax::kernels {
namespace {

struct Part {
  size_t picture;
  int64_t channels, first;
};

// Pictures of `pixels` channels each, and which parts of them are the input.
struct Input {
  std::vector<int64_t> pixels;
  std::vector<Part> parts;

  int64_t Channels() const {
    int64_t n = 0;
    for (const Part& p : parts) n += p.channels;
    return n;
  }
};

// Each part in a picture of its own; the last one ends with its picture.
Input Apart(const std::vector<int64_t>& channels) {
  Input in;
  for (size_t i = 0; i < channels.size(); ++i) {
    const auto first = static_cast<int64_t>(i % 3);
    in.parts.push_back({i, channels[i], first});
    in.pixels.push_back(first + channels[i] + (i + 1 < channels.size() ? first + 1 : 0));
  }
  return in;
}

// All in one picture, in the other order and with channels between that nobody reads.
Input Together(const std::vector<int64_t>& channels) {
  Input in;
  int64_t pixel = 3;
  for (auto c = channels.rbegin(); c != channels.rend(); ++c) {
    in.parts.insert(in.parts.begin(), {0, *c, pixel});
    pixel += *c + 1;
  }
  in.pixels = {pixel - 1};
  return in;
}

// Every second part lies in the first one's picture, all from the same channel on; the others in one.
Input Shared(const std::vector<int64_t>& channels) {
  Input in;
  in.pixels.resize(std::min<size_t>(2, channels.size()));
  for (size_t i = 0; i < channels.size(); ++i) {
    const auto first = static_cast<int64_t>(1 + i % 2);
    in.parts.push_back({i % 2, channels[i], first});
    in.pixels[i % 2] = std::max(in.pixels[i % 2], first + channels[i]);
  }
  return in;
}

std::vector<Input> InputsOf(const std::vector<int64_t>& channels) {
  return {Apart(channels), Together(channels), Shared(channels)};
}

std::string Describe(const Input& in) {
  std::string text = "sources";
  for (const Part& p : in.parts) {
    text.append(" ").append(std::to_string(p.picture));
    text.append(":").append(std::to_string(p.first));
    text.append("+").append(std::to_string(p.channels));
    text.append("/").append(std::to_string(in.pixels[p.picture]));
  }
  return text;
}

// The shape's channels are those of `in`.
void Check(ConvShape s, const Input& in, int variant) {
  SCOPED_TRACE(Describe(s) + " " + Describe(in) + " variant " + std::to_string(variant));
  ASSERT_EQ(s.in_channels, in.Channels());
  const int64_t pixels = s.batch * s.InSize();
  // Not a float more than there are, so that an address sanitizer sees who reads on; NaN where
  // nobody may read.
  std::vector<std::vector<float>> pictures;
  for (const int64_t pixel : in.pixels) {
    pictures.emplace_back(static_cast<size_t>(pixels * pixel),
                          std::numeric_limits<float>::quiet_NaN());
  }
  std::vector<float> joined(static_cast<size_t>(pixels * s.in_channels));
  std::vector<const float*> inputs;
  int64_t begin = 0;
  for (const Part& part : in.parts) {
    std::vector<float>& picture = pictures[part.picture];
    const std::vector<float> values =
        RandomFloats(pixels * part.channels, 10 + static_cast<uint32_t>(begin));
    for (int64_t i = 0; i < pixels * part.channels; ++i) {
      const int64_t pixel = i / part.channels, c = i % part.channels;
      float& at = picture[static_cast<size_t>(pixel * in.pixels[part.picture] + part.first + c)];
      if (std::isnan(at)) at = values[static_cast<size_t>(i)];  // else another part's as well
      joined[static_cast<size_t>(pixel * s.in_channels + begin + c)] = at;
    }
    begin += part.channels;
    inputs.push_back(picture.data());
    s.sources[s.source_count++] = {part.channels, part.first, in.pixels[part.picture]};
  }

  Operands o = MakeOperands(s, s.out_channels * s.in_channels * s.KernelSize(), variant);
  o.input = ChannelsLast(joined, s.InSize(), s.in_channels);  // back to channels first
  const std::vector<Sum> want =
      ChannelsLast(ConvReference(s, o, false), s.out_channels, s.OutSize());
  s.layout = ConvLayout::kChannelsLast;
  o.input = joined;
  o.residual = ChannelsLast(o.residual, s.out_channels, s.OutSize());
  if (o.epilogue.residual != nullptr) o.epilogue.residual = o.residual.data();
  ASSERT_TRUE(SupportsSources(s));
  const auto check = [&](const ConvOptions& options, const std::vector<Sum>& sums) {
    Compare(
        s, o, sums, [&](const ConvShape& shape) { return PlanConv(shape, options); },
        PackConvWeights, ConvWorkspaceBytes,
        [&](const ConvPlan& plan, const void* packed, float* out, void* workspace, Team& team) {
          Conv(plan, inputs.data(), packed, o.with_bias ? o.bias.data() : nullptr, o.epilogue, out,
               workspace, team);
        });
  };
  check({.precise = true}, want);
  if (PlanConv(s, {.precise = true}).algorithm != ConvAlgorithm::kIndirectGemm) {
    check({.algorithm = ConvAlgorithm::kIndirectGemm}, want);
  }
  if (!HasWinograd(s)) return;
  for (const int64_t m : {2, 4}) {
    std::vector<Sum> bounded = want;
    BoundByWinograd(s, o, m, bounded);
    check({.algorithm = m == 2 ? ConvAlgorithm::kWinograd2 : ConvAlgorithm::kWinograd4}, bounded);
  }
}

// One to four parts and as many as there may be: of whole vectors and of less, with eights, with fours
// and with nothing in common.
const std::vector<std::vector<int64_t>>& ChannelLists() {
  static const auto* lists =
      new std::vector<std::vector<int64_t>>{{8},
                                            {12},
                                            {17},
                                            {24},
                                            {40},
                                            {72},
                                            {8, 12},
                                            {17, 24},
                                            {8, 72},
                                            {5, 7, 1},
                                            {8, 16, 24},
                                            {12, 40, 12},
                                            {1, 1, 1, 5},
                                            {8, 12, 17, 24},
                                            {8, 24, 40, 72},
                                            std::vector<int64_t>(16, 8),
                                            {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 17}};
  return *lists;
}

// Over all lists and arrangements, shapes made by `shape(channels)`.
template <class F>
void CheckAll(int variant, F shape) {
  for (const std::vector<int64_t>& channels : ChannelLists()) {
    for (const Input& in : InputsOf(channels)) {
      Check(shape(in.Channels()), in, variant++);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(ConvSources, Pointwise) {
  const Axis rows{.in = 5, .kernel = 1}, columns{.in = 7, .kernel = 1};
  CheckAll(0, [&](int64_t ic) { return Shape(2, 1, ic, 19, {rows, columns}); });
  CheckAll(1, [&](int64_t ic) { return Shape(2, 1, ic, 5, {columns}); });
  CheckAll(2, [&](int64_t ic) { return Shape(2, 1, ic, 3, {{.in = 2, .kernel = 1}, rows, rows}); });
}

TEST(ConvSources, PointwiseWithStridesAndPads) {
  const Axis strided{.in = 7, .kernel = 1, .stride = 2};
  const Axis padded{.in = 6, .kernel = 1, .pad_begin = 1, .pad_end = 2};
  CheckAll(3, [&](int64_t ic) { return Shape(2, 1, ic, 9, {strided, padded}); });
  CheckAll(4, [&](int64_t ic) { return Shape(2, 1, ic, 9, {padded, strided}); });
}

TEST(ConvSources, ThreeByThree) {
  const Axis padded{.in = 7, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  const Axis plain{.in = 8, .kernel = 3};
  const Axis cropped{.in = 9, .kernel = 3, .pad_begin = -1, .pad_end = 3};
  CheckAll(0, [&](int64_t ic) { return Shape(2, 1, ic, 9, {padded, padded}); });
  CheckAll(3, [&](int64_t ic) { return Shape(1, 1, ic, 6, {plain, cropped}); });
}

TEST(ConvSources, StridesAndDilations) {
  const Axis strided{.in = 7, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1};
  const Axis dilated{.in = 8, .kernel = 3, .dilation = 2, .pad_begin = 2, .pad_end = 1};
  CheckAll(1, [&](int64_t ic) { return Shape(2, 1, ic, 9, {strided, strided}); });
  CheckAll(5, [&](int64_t ic) { return Shape(2, 1, ic, 9, {strided, dilated}); });
}

TEST(ConvSources, OneAndThreeDimensions) {
  const Axis five{.in = 12, .kernel = 5, .stride = 2, .pad_begin = 3, .pad_end = 2};
  const Axis three{.in = 4, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  CheckAll(2, [&](int64_t ic) { return Shape(2, 1, ic, 9, {five}); });
  CheckAll(6, [&](int64_t ic) {
    return Shape(2, 1, ic, 5, {{.in = 3, .kernel = 2}, three, {.in = 5, .kernel = 3, .stride = 2}});
  });
}

// More positions than a block takes, in several tasks, some of output channels; a sum in several blocks.
TEST(ConvSources, ManyBlocks) {
  const Axis three{.in = 19, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  const Axis one{.in = 19, .kernel = 1};
  int variant = 0;
  for (const Input& in : InputsOf({24, 40})) {
    Check(Shape(1, 1, 64, 33, {three, three}), in, variant++);
    Check(Shape(1, 1, 64, 150, {one, one}), in, variant++);
  }
  for (const Input& in : InputsOf({400})) {
    Check(Shape(1, 1, 400, 20, {{.in = 5, .kernel = 3}, one}), in, variant++);
  }
  for (const Input& in : InputsOf({400, 800})) {
    Check(Shape(1, 1, 1200, 20, {{.in = 9, .kernel = 1}}), in, variant++);
  }
}

// Padding is all that is seen: of an input without elements, and of one that lies past the windows.
TEST(ConvSources, NothingToRead) {
  const Axis none{.in = 0, .kernel = 3, .pad_begin = 2, .pad_end = 3};
  const Axis three{.in = 4, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  const Axis before{.in = 3, .kernel = 3, .pad_begin = 8, .pad_end = -2};
  int variant = 0;
  for (const Input& in : InputsOf({8, 12})) {
    Check(Shape(2, 1, 20, 9, {three, none}), in, variant++);
    Check(Shape(2, 1, 20, 9, {before, three}), in, variant++);
    Check(Shape(2, 1, 20, 9, {three, before}), in, variant++);
  }
}

TEST(ConvSources, OnlyWhereAPathReadsThem) {
  const Axis three{.in = 4, .kernel = 3};
  ConvShape s = Shape(1, 1, 16, 8, {three, three});
  s.layout = ConvLayout::kChannelsLast;
  EXPECT_TRUE(SupportsSources(s));
  for (const ConvLayout layout : {ConvLayout::kChannelsFirst, ConvLayout::kFirstToLast}) {
    ConvShape other = s;
    other.layout = layout;
    EXPECT_FALSE(SupportsSources(other));
  }
  ConvShape grouped = s;
  grouped.groups = 2;
  EXPECT_FALSE(SupportsSources(grouped));
  ConvShape few = s;
  few.in_channels = 7;
  EXPECT_FALSE(SupportsSources(few)) << "their blocks are gathered";
  ConvShape four = Shape(1, 1, 16, 8, {three, three, three, three});
  four.layout = ConvLayout::kChannelsLast;
  EXPECT_FALSE(SupportsSources(four));
}

}  // namespace
}  // namespace parallax::kernels
