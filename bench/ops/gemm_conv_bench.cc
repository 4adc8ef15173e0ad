// GEMM, convolution and pooling: GFLOP/s, and the fraction of an FMA peak measured in the same run.
//
//   build/release/gemm_conv_bench [--simd=AVX2] [--benchmark_filter=...]
// Rows end in /t1, /t2: threads. A result that differs from a double-precision reference at sampled
// outputs fails its row instead of being timed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/targets.h"

#include <hwy/targets.h>

#include "kernels/conv/conv.h"
#include "kernels/conv/conv_transpose.h"
#include "kernels/gemm/gemm.h"
#include "kernels/limits/limits.h"
#include "kernels/pool/pool.h"

namespace parallax::bench {
namespace {

using namespace kernels;  // NOLINT: a program of its own

double g_peak = 0;

// 64-byte aligned floats.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : storage_(bytes / 4 + 32) {}
  float* data() {
    const auto at = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - at % 64) % 64 / 4;
  }

 private:
  std::vector<float> storage_;
};

Buffer Random(int64_t n, uint32_t seed) {
  Buffer b(static_cast<size_t>(n) * 4);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (int64_t i = 0; i < n; ++i) b.data()[i] = uniform(generator);
  return b;
}

void Count(benchmark::State& state, double flops) {
  using benchmark::Counter;
  state.counters["GFLOPs"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["peak"] = Counter(flops * 1e-9 / g_peak, Counter::kIsIterationInvariantRate);
}

struct GemmRow {
  const char* name;
  int64_t m, n, k;
  PackedOperand packed;
  Transpose trans_b = Transpose::kNo;
  int64_t batch = 1;
};

void RunGemm(benchmark::State& state, const GemmRow& row, int threads) {
  GemmShape shape{.m = row.m, .n = row.n, .k = row.k, .trans_b = row.trans_b, .packed = row.packed};
  if (row.batch > 1) {
    shape.batch.rank = 1;
    shape.batch.extents[0] = row.batch;
    shape.batch.a_strides[0] = row.m * row.k;
    shape.batch.b_strides[0] = row.n * row.k;
    shape.batch.c_strides[0] = row.m * row.n;
  }
  Buffer a = Random(row.batch * row.m * row.k, 1), b = Random(row.batch * row.k * row.n, 2);
  Buffer c = Random(row.batch * row.m * row.n, 3);
  Buffer packed_a(PackedABytes(row.m, row.k)), packed_b(PackedBBytes(row.k, row.n));
  const float* pa = a.data();
  const float* pb = b.data();
  if (row.packed == PackedOperand::kA) {
    PackA(row.m, row.k, Transpose::kNo, 0, a.data(), packed_a.data());
    pa = packed_a.data();
  }
  if (row.packed == PackedOperand::kB) {
    PackB(row.k, row.n, row.trans_b, 0, b.data(), packed_b.data());
    pb = packed_b.data();
  }
  Team team(threads);
  const GemmPlan plan = PlanGemm(shape);
  Buffer workspace(GemmWorkspaceBytes(plan, threads));
  Gemm(plan, pa, pb, c.data(), {}, workspace.data(), team);
  for (int64_t i = 0; i < 50; ++i) {
    const int64_t m = (i * 7919) % row.m, n = (i * 104729) % row.n;
    double want = 0, norm = 0;
    for (int64_t k = 0; k < row.k; ++k) {
      const double x = a.data()[m * row.k + k];
      const double y = b.data()[row.trans_b == Transpose::kYes ? n * row.k + k : k * row.n + n];
      want += x * y;
      norm += std::abs(x * y);
    }
    if (std::abs(c.data()[m * row.n + n] - want) > static_cast<double>(row.k) * 6e-8 * norm) {
      state.SkipWithError("wrong result");
      return;
    }
  }
  for (auto _ : state) {
    Gemm(plan, pa, pb, c.data(), {}, workspace.data(), team);
    benchmark::DoNotOptimize(c.data());
  }
  state.SetLabel(plan.name());
  Count(state, 2.0 * static_cast<double>(row.batch * row.m) * static_cast<double>(row.n * row.k));
}

constexpr GemmRow kGemmRows[] = {
    {"128x3072x768", 128, 3072, 768, PackedOperand::kB},
    {"128x768x3072", 128, 768, 3072, PackedOperand::kB},
    {"1500x1536x384", 1500, 1536, 384, PackedOperand::kB},
    {"1500x384x1536", 1500, 384, 1536, PackedOperand::kB},
    {"1500x384x384", 1500, 384, 384, PackedOperand::kB},
    {"3136x96x96", 3136, 96, 96, PackedOperand::kB},
    {"77x2048x512", 77, 2048, 512, PackedOperand::kB},
    {"77x512x512", 77, 512, 512, PackedOperand::kB},
    {"77x512x2048", 77, 512, 2048, PackedOperand::kB},
    {"49x960x160", 49, 960, 160, PackedOperand::kB},
    {"49x160x960", 49, 160, 960, PackedOperand::kB},
    {"49x1280x320", 49, 1280, 320, PackedOperand::kB},
    {"196x384x64", 196, 384, 64, PackedOperand::kB},
    {"196x64x384", 196, 64, 384, PackedOperand::kB},
    {"196x576x96", 196, 576, 96, PackedOperand::kB},
    {"3136x24x144", 3136, 24, 144, PackedOperand::kB},
    {"3136x144x24", 3136, 144, 24, PackedOperand::kB},
    {"12544x96x16", 12544, 96, 16, PackedOperand::kB},
    {"12544x16x32", 12544, 16, 32, PackedOperand::kB},
    {"6400x64x128", 6400, 64, 128, PackedOperand::kB},
    {"6400x48x128", 6400, 48, 128, PackedOperand::kB},
    {"6400x32x128", 6400, 32, 128, PackedOperand::kB},
    {"6400x16x128", 6400, 16, 128, PackedOperand::kB},
    {"1600x128x256", 1600, 128, 256, PackedOperand::kB},
    {"1x1536x384", 1, 1536, 384, PackedOperand::kB},
    {"1x51865x384", 1, 51865, 384, PackedOperand::kB},
    {"4x1536x384", 4, 1536, 384, PackedOperand::kB},
    {"128x3072x768_A", 128, 3072, 768, PackedOperand::kA},
    {"128x3072x768", 128, 3072, 768, PackedOperand::kNone},
    {"128x3072x768_bt", 128, 3072, 768, PackedOperand::kNone, Transpose::kYes},
    {"1500x1536x384", 1500, 1536, 384, PackedOperand::kNone},
    {"1x1536x384", 1, 1536, 384, PackedOperand::kNone},
    {"1x1536x384_bt", 1, 1536, 384, PackedOperand::kNone, Transpose::kYes},
    {"64x(49x49x32)", 49, 49, 32, PackedOperand::kNone, Transpose::kNo, 64},
    {"64x(49x49x32)_bt", 49, 49, 32, PackedOperand::kNone, Transpose::kYes, 64},
    {"64x(49x32x49)", 49, 32, 49, PackedOperand::kNone, Transpose::kNo, 64},
    {"12x(128x128x64)", 128, 128, 64, PackedOperand::kNone, Transpose::kNo, 12},
    {"12x(128x64x128)", 128, 64, 128, PackedOperand::kNone, Transpose::kNo, 12},
    {"6x(1500x1500x64)", 1500, 1500, 64, PackedOperand::kNone, Transpose::kNo, 6},
    {"6x(1500x64x1500)", 1500, 64, 1500, PackedOperand::kNone, Transpose::kNo, 6},
};

struct ConvRow {
  const char* name;
  int64_t groups, ic, oc, size, kernel, stride;
};

ConvShape SquareShape(const ConvRow& row, ConvLayout layout = ConvLayout::kChannelsFirst) {
  ConvShape s{
      .layout = layout, .groups = row.groups, .in_channels = row.ic, .out_channels = row.oc};
  const int64_t pad = row.kernel == row.stride ? 0 : row.kernel / 2;
  for (int i = 0; i < 2; ++i) {
    s.in[i] = row.size;
    s.kernel[i] = row.kernel;
    s.strides[i] = row.stride;
    s.pads_begin[i] = pad;
    s.out[i] = (row.size + 2 * pad - row.kernel) / row.stride + 1;
  }
  return s;
}

// One output element from the definition; the sum of magnitudes in `norm`.
// The input's channels, and its rows and columns, so many floats apart.
struct Strides {
  int64_t channel, position;
};
Strides StridesOf(const ConvShape& s, int64_t channels, int64_t size) {
  if (s.layout == ConvLayout::kChannelsLast) return {1, channels};
  return {size, 1};
}

double ConvElement(const ConvShape& s, const float* x, const float* w, int64_t oc, int64_t oh,
                   int64_t ow, double* norm) {
  const int64_t icg = s.in_channels / s.groups;
  const int64_t first = oc / (s.out_channels / s.groups) * icg;
  double sum = 0;
  *norm = 0;
  for (int64_t c = 0; c < icg; ++c) {
    for (int64_t kh = 0; kh < s.kernel[0]; ++kh) {
      for (int64_t kw = 0; kw < s.kernel[1]; ++kw) {
        const int64_t ih = oh * s.strides[0] + kh - s.pads_begin[0];
        const int64_t iw = ow * s.strides[1] + kw - s.pads_begin[1];
        if (ih < 0 || ih >= s.in[0] || iw < 0 || iw >= s.in[1]) continue;
        const Strides by = StridesOf(s, s.in_channels, s.InSize());
        const double product =
            double{x[(first + c) * by.channel + (ih * s.in[1] + iw) * by.position]} *
            w[((oc * icg + c) * s.kernel[0] + kh) * s.kernel[1] + kw];
        sum += product;
        *norm += std::abs(product);
      }
    }
  }
  return sum;
}

void RunConv(benchmark::State& state, const ConvRow& row, ConvLayout layout, int threads) {
  const ConvShape s = SquareShape(row, layout);
  const int64_t depth = s.in_channels / s.groups * s.KernelSize();
  Buffer x = Random(s.in_channels * s.InSize(), 1), w = Random(s.out_channels * depth, 2);
  Buffer y = Random(s.out_channels * s.OutSize(), 3);
  const ConvPlan plan = PlanConv(s);
  Team team(threads);
  Buffer packed(plan.packed_weight_bytes), workspace(ConvWorkspaceBytes(plan, threads));
  PackConvWeights(plan, w.data(), packed.data());
  Conv(plan, x.data(), packed.data(), nullptr, {}, y.data(), workspace.data(), team);
  for (int64_t i = 0; i < 50; ++i) {
    const int64_t oc = i * 7919 % s.out_channels, at = i * 104729 % s.OutSize();
    double norm = 0;
    const double want = ConvElement(s, x.data(), w.data(), oc, at / s.out[1], at % s.out[1], &norm);
    const Strides by = s.layout == ConvLayout::kFirstToLast
                           ? Strides{1, s.out_channels}
                           : StridesOf(s, s.out_channels, s.OutSize());
    const double units = plan.algorithm == ConvAlgorithm::kWinograd4 ? 6e-6 : 6e-8;
    if (std::abs(y.data()[oc * by.channel + at * by.position] - want) >
        static_cast<double>(depth) * units * norm) {
      state.SkipWithError("wrong result");
      return;
    }
  }
  for (auto _ : state) {
    Conv(plan, x.data(), packed.data(), nullptr, {}, y.data(), workspace.data(), team);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetLabel(plan.name());
  Count(state,
        2.0 * static_cast<double>(s.out_channels * s.OutSize()) * static_cast<double>(depth));
}

constexpr ConvRow kConvRows[] = {
    {"3-16_3x3s2_640", 1, 3, 16, 640, 3, 2},   {"16-32_3x3s2_320", 1, 16, 32, 320, 3, 2},
    {"16-16_3x3_160", 1, 16, 16, 160, 3, 1},   {"64-64_3x3_40", 1, 64, 64, 40, 3, 1},
    {"64-128_3x3s2_80", 1, 64, 128, 80, 3, 2}, {"128-128_3x3_40", 1, 128, 128, 40, 3, 1},
    {"256-256_3x3_20", 1, 256, 256, 20, 3, 1}, {"384-128_1x1_40", 1, 384, 128, 40, 1, 1},
    {"48-32_1x1_160", 1, 48, 32, 160, 1, 1},   {"32-192_1x1_28", 1, 32, 192, 28, 1, 1},
    {"960-160_1x1_7", 1, 960, 160, 7, 1, 1},   {"320-1280_1x1_7", 1, 320, 1280, 7, 1, 1},
    {"3-96_4x4s4_256", 1, 3, 96, 256, 4, 4},   {"64-128_1x1s2_56", 1, 64, 128, 56, 1, 2},
    {"dw32_3x3_112", 32, 32, 32, 112, 3, 1},   {"dw96_3x3s2_112", 96, 96, 96, 112, 3, 2},
    {"dw192_3x3_56", 192, 192, 192, 56, 3, 1}, {"dw192_3x3_28", 192, 192, 192, 28, 3, 1},
    {"dw576_3x3_14", 576, 576, 576, 14, 3, 1}, {"dw960_3x3_7", 960, 960, 960, 7, 3, 1},
    {"dw192_5x5_28", 192, 192, 192, 28, 5, 1},
};

void RunConvTranspose(benchmark::State& state, const ConvRow& row, int threads) {
  ConvShape s = SquareShape(row);
  for (int i = 0; i < 2; ++i) {
    s.out[i] = (s.in[i] - 1) * s.strides[i] + s.kernel[i] - 2 * s.pads_begin[i];
  }
  Buffer x = Random(s.in_channels * s.InSize(), 1);
  Buffer w = Random(s.in_channels * s.out_channels * s.KernelSize(), 2);
  Buffer y = Random(s.out_channels * s.OutSize(), 3);
  const ConvTransposePlan plan = PlanConvTranspose(s);
  Team team(threads);
  Buffer packed(plan.packed_weight_bytes);
  Buffer workspace(ConvTransposeWorkspaceBytes(plan, threads));
  PackConvTransposeWeights(plan, w.data(), packed.data());
  for (auto _ : state) {
    ConvTranspose(plan, x.data(), packed.data(), nullptr, {}, y.data(), workspace.data(), team);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetLabel(plan.name());
  Count(state, 2.0 * static_cast<double>(s.out_channels * s.InSize()) *
                   static_cast<double>(s.in_channels * s.KernelSize()));
}

constexpr ConvRow kTransposeRows[] = {
    {"64-64_2x2s2_80", 1, 64, 64, 80, 2, 2},
    {"24-1_2x2s2_320", 1, 24, 1, 320, 2, 2},
    {"128-64_4x4s2_40", 1, 128, 64, 40, 4, 2},
};

void RunMaxPool(benchmark::State& state, int64_t size, int64_t kernel, int64_t stride,
                int threads) {
  PoolShape s{.channels = 64};
  const int64_t pad = kernel == stride ? 0 : kernel / 2;
  for (int i = 0; i < 2; ++i) {
    s.in[i] = size;
    s.kernel[i] = kernel;
    s.strides[i] = stride;
    s.pads_begin[i] = s.pads_end[i] = pad;
    s.out[i] = (size + 2 * pad - kernel) / stride + 1;
  }
  const int64_t out = s.out[0] * s.out[1];
  Buffer x = Random(64 * size * size, 1), y = Random(64 * out, 2);
  Team team(threads);
  for (auto _ : state) {
    MaxPool(s, x.data(), y.data(), nullptr, IndexOrder::kRowMajor, team);
    benchmark::DoNotOptimize(y.data());
  }
  Count(state, static_cast<double>(64 * out * kernel * kernel));
}

// --simd=NAME restricts dispatch to one target; the argument is removed.
void ChooseTarget(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--simd=", 7) != 0) continue;
    for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
      if (std::strcmp(hwy::TargetName(target), argv[i] + 7) != 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
    }
    std::rotate(argv + i, argv + i + 1, argv + argc);
    --argc;
    return;
  }
}

}  // namespace
}  // namespace parallax::bench

int main(int argc, char** argv) {
  using namespace parallax::bench;
  ChooseTarget(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  parallax::Team one(1);
  g_peak = parallax::kernels::MeasureFmaPeak(one);
  printf("target %s, FMA peak of one thread %.1f GFLOP/s\n", parallax::kernels::SimdTargetName(),
         g_peak);
  static const char* const kPacked[] = {"plain", "packedA", "packedB"};
  for (const GemmRow& row : kGemmRows) {
    for (int threads : {1, 2}) {
      const std::string name = std::string("gemm/") + row.name + "/" +
                               kPacked[static_cast<int>(row.packed)] + "/t" +
                               std::to_string(threads);
      benchmark::RegisterBenchmark(name.c_str(), [&row, threads](benchmark::State& s) {
        RunGemm(s, row, threads);
      })->UseRealTime();
    }
  }
  for (const ConvRow& row : kConvRows) {
    for (int threads : {1, 2}) {
      for (ConvLayout layout : {ConvLayout::kChannelsFirst, ConvLayout::kChannelsLast}) {
        if (layout == ConvLayout::kChannelsLast && row.ic <= 4) layout = ConvLayout::kFirstToLast;
        const std::string name = std::string("conv/") + row.name +
                                 (layout != ConvLayout::kChannelsFirst ? "/last/t" : "/t") +
                                 std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(), [&row, layout, threads](benchmark::State& s) {
          RunConv(s, row, layout, threads);
        })->UseRealTime();
      }
    }
  }
  for (const ConvRow& row : kTransposeRows) {
    for (int threads : {1, 2}) {
      const std::string name =
          std::string("conv_transpose/") + row.name + "/t" + std::to_string(threads);
      benchmark::RegisterBenchmark(name.c_str(), [&row, threads](benchmark::State& s) {
        RunConvTranspose(s, row, threads);
      })->UseRealTime();
    }
  }
  static constexpr int64_t kPools[][3] = {{20, 5, 1}, {112, 3, 2}, {80, 2, 2}};
  for (const auto& p : kPools) {
    const std::string name = "maxpool/64x" + std::to_string(p[0]) + "_k" + std::to_string(p[1]) +
                             "s" + std::to_string(p[2]) + "/t1";
    benchmark::RegisterBenchmark(name.c_str(), [&p](benchmark::State& s) {
      RunMaxPool(s, p[0], p[1], p[2], 1);
    })->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
