#include "kernels/conv/chain.h"

#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {
namespace {

using testing::ForEachTarget;
using testing::GuardedBytes;
using testing::RandomFloats;
using testing::TeamOf;

// A stage: 1x1 where kernel is 0, else depthwise, its number of channels `out`.
struct StageOf {
  int64_t out = 0;
  int64_t kernel = 0, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
};

std::vector<ConvShape> Shapes(int64_t batch, int64_t channels, int64_t rows, int64_t columns,
                              const std::vector<StageOf>& stages) {
  std::vector<ConvShape> shapes;
  for (const StageOf& stage : stages) {
    ConvShape s{.layout = ConvLayout::kChannelsLast, .batch = batch, .in_channels = channels};
    s.groups = stage.kernel > 0 ? channels : 1;
    s.out_channels = stage.kernel > 0 ? channels : stage.out;
    for (int axis = 0; axis < 2; ++axis) {
      s.in[axis] = axis == 0 ? rows : columns;
      s.kernel[axis] = std::max<int64_t>(stage.kernel, 1);
      s.strides[axis] = stage.stride;
      s.dilations[axis] = stage.dilation;
      s.pads_begin[axis] = stage.pad_begin;
      s.out[axis] = (s.in[axis] + stage.pad_begin + stage.pad_end -
                     ((s.kernel[axis] - 1) * stage.dilation + 1)) /
                        stage.stride +
                    1;
    }
    rows = s.out[0];
    columns = s.out[1];
    channels = s.out_channels;
    shapes.push_back(s);
  }
  return shapes;
}

// What is chained is, bit for bit, what the stages give one after the other.
void Check(const std::vector<ConvShape>& shapes, bool residual, bool residual_last) {
  ASSERT_TRUE(SupportsConvChain(shapes));
  const ConvShape& first = shapes.front();
  const auto input = RandomFloats(first.batch * first.InSize() * first.in_channels, 1);
  const ConvShape& last = shapes.back();
  const int64_t outputs = last.batch * last.OutSize() * last.out_channels;
  const auto added = RandomFloats(outputs, 2);
  ForEachTarget([&](const char*) {
    const ConvChainPlan plan = PlanConvChain(shapes);
    std::vector<GuardedBytes> packed;
    std::vector<std::vector<float>> biases;
    std::vector<ConvStage> stages(shapes.size());
    packed.reserve(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ConvShape& s = shapes[i];
      const auto weights = RandomFloats(
          s.out_channels * (s.in_channels / s.groups) * s.KernelSize(), static_cast<uint32_t>(i));
      packed.emplace_back(plan.stages[i].packed_weight_bytes);
      PackConvWeights(plan.stages[i], weights.data(), packed.back().get());
      biases.push_back(RandomFloats(s.out_channels, static_cast<uint32_t>(10 + i)));
      stages[i].epilogue.activation = i == 1 ? Activation::kUnary : Activation::kRelu;
      stages[i].epilogue.op = UnaryOp::kHardSwish;
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      stages[i].packed = packed[i].get();
      stages[i].bias = i == 0 ? nullptr : biases[i].data();
    }
    stages.back().epilogue.residual = residual ? added.data() : nullptr;
    stages.back().epilogue.residual_last = residual_last;

    std::vector<float> want = input;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ConvShape& s = shapes[i];
      std::vector<float> next(static_cast<size_t>(s.batch * s.OutSize() * s.out_channels));
      GuardedBytes workspace(ConvWorkspaceBytes(plan.stages[i], 1));
      Conv(plan.stages[i], want.data(), stages[i].packed, stages[i].bias, stages[i].epilogue,
           next.data(), workspace.get(), TeamOf(1));
      want = std::move(next);
    }
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(threads);
      GuardedBytes workspace(ConvChainWorkspaceBytes(plan, threads));
      GuardedBytes out(want.size() * sizeof(float), 4);
      ConvChain(plan, input.data(), stages, out.floats(), workspace.get(), TeamOf(threads));
      workspace.CheckGuards();
      out.CheckGuards();
      ASSERT_EQ(std::memcmp(out.get(), want.data(), want.size() * sizeof(float)), 0);
    }
  });
}

TEST(ConvChain, SameBitsAsStages) {
  for (const int64_t stride : {1, 2, 3}) {
    for (const int64_t kernel : {1, 3, 5}) {
      SCOPED_TRACE("kernel " + std::to_string(kernel) + " stride " + std::to_string(stride));
      const StageOf depthwise{
          .kernel = kernel, .stride = stride, .pad_begin = kernel / 2, .pad_end = kernel / 2};
      if (kernel == 1 && stride == 1) continue;  // that is a product
      Check(Shapes(2, 5, 19, 11, {{.out = 40}, depthwise, {.out = 7}}), stride == 1, kernel == 3);
      Check(Shapes(1, 17, 19, 11, {depthwise, {.out = 33}}), true, false);
      Check(Shapes(3, 5, 9, 8, {{.out = 17}, depthwise}), false, false);
    }
  }
}

// Rows wider than what a step may keep, and so many that several fit.
TEST(ConvChain, StepsOfOneRowAndOfMany) {
  const StageOf depthwise{.kernel = 3, .pad_begin = 1, .pad_end = 1};
  const auto wide = Shapes(1, 4, 7, 700, {{.out = 40}, depthwise, {.out = 4}});
  EXPECT_EQ(PlanConvChain(wide).rows_per_step, 1);
  Check(wide, true, true);
  // The kept rows begin anywhere in their ring, and what a step adds may reach past its end.
  for (const int64_t stride : {1, 2, 3}) {
    for (const int64_t kernel : {2, 3, 4, 5}) {
      const StageOf by{.kernel = kernel, .stride = stride, .pad_begin = kernel / 2, .pad_end = 1};
      const auto shapes = Shapes(1, 3, 17, 600, {{.out = 24}, by, {.out = 3}});
      EXPECT_LE(PlanConvChain(shapes).rows_per_step, 2);
      Check(shapes, false, true);
    }
  }
  const auto narrow = Shapes(1, 4, 50, 3, {{.out = 8}, depthwise, {.out = 4}});
  EXPECT_EQ(PlanConvChain(narrow).rows_per_step, 50);
  Check(narrow, false, false);
}

// Pads of which whole output rows are made, windows that leave rows out, dilation.
TEST(ConvChain, UnusualWindows) {
  Check(Shapes(1, 3, 5, 6, {{.out = 9}, {.kernel = 3, .pad_begin = 5, .pad_end = 4}, {.out = 2}}),
        false, false);
  Check(Shapes(1, 3, 23, 9, {{.out = 9}, {.kernel = 2, .stride = 4, .pad_end = 1}, {.out = 2}}),
        false, false);
  Check(
      Shapes(2, 3, 21, 17,
             {{.out = 9}, {.kernel = 3, .dilation = 3, .pad_begin = 3, .pad_end = 2}, {.out = 2}}),
      false, false);
}

TEST(ConvChain, Supports) {
  const StageOf depthwise{.kernel = 3, .pad_begin = 1, .pad_end = 1};
  auto shapes = Shapes(1, 4, 8, 8, {{.out = 8}, depthwise, {.out = 4}});
  EXPECT_TRUE(SupportsConvChain(shapes));
  EXPECT_FALSE(SupportsConvChain(std::span(shapes).first(1)));
  shapes[1].in[1] = 9;  // not what the first one makes
  EXPECT_FALSE(SupportsConvChain(shapes));
  shapes = Shapes(1, 4, 8, 8, {{.out = 8}, depthwise});
  shapes[1].groups = 4;  // two channels a group
  EXPECT_FALSE(SupportsConvChain(shapes));
  shapes = Shapes(1, 4, 8, 8, {{.out = 8}, depthwise});
  shapes[0].layout = ConvLayout::kChannelsFirst;
  EXPECT_FALSE(SupportsConvChain(shapes));
}

}  // namespace
}  // namespace parallax::kernels
