// Attention: GFLOP/s of the two products, and the fraction of an FMA peak measured in the same run.
//
//   build/release/attention_bench [--simd=AVX2] [--benchmark_filter=...]
// Rows end in /t1, /t2: threads. A result that differs from a double-precision reference at sampled
// outputs fails its row instead of being timed.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/targets.h"

#include <hwy/targets.h>

#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/limits/limits.h"

namespace parallax::bench {
namespace {

using namespace kernels;  // NOLINT: a program of its own

double g_peak = 0;

struct Row {
  const char* name;
  int64_t windows, heads, m, n, depth;
  bool by_sequence;     // [sequence, heads, depth] rather than [heads, sequence, depth]
  bool window = false;  // cosine attention with a packed mask for each head, as Swin's windows
  bool causal = false;  // a mask [m, n] that no one packed
};

constexpr Row kRows[] = {
    {"distilbert", 1, 12, 128, 128, 64, true},
    {"clip", 1, 8, 77, 77, 64, true, false, true},
    {"whisper_encoder", 1, 6, 1500, 1500, 64, true},
    {"whisper_encoder_by_head", 1, 6, 1500, 1500, 64, false},
    {"whisper_cross_prefill", 1, 6, 4, 1500, 64, false},
    {"whisper_cross_cached", 1, 6, 1, 1500, 64, false},
    {"whisper_self_cached", 1, 6, 1, 128, 64, false},
    {"swin_stage1", 64, 3, 64, 64, 32, true, true},
    {"swin_stage3", 4, 12, 64, 64, 32, true, true},
    {"windows_49", 64, 3, 49, 49, 32, true},
    {"depth32_128", 1, 12, 128, 128, 32, true},
    {"depth80_256", 1, 12, 256, 256, 80, true},
    {"ocr", 1, 8, 40, 40, 15, true},
};

// 64-byte aligned floats of [-1, 1).
class Buffer {
 public:
  explicit Buffer(int64_t floats, uint32_t seed = 0) : storage_(static_cast<size_t>(floats) + 32) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    if (seed != 0) {
      for (float& x : storage_) x = uniform(generator);
    }
  }
  float* data() {
    const auto at = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - at % 64) % 64 / 4;
  }

 private:
  std::vector<float> storage_;
};

AttentionShape ShapeOf(const Row& row) {
  AttentionShape s{.m = row.m, .n = row.n, .depth = row.depth, .value_depth = row.depth};
  s.scale = 1 / std::sqrt(static_cast<float>(row.depth));
  s.normalize = row.window;
  s.epsilon = 1e-12f;
  const int64_t step = row.by_sequence ? row.heads * row.depth : row.depth;
  s.q = s.k = s.v = s.y = {.row = step, .depth = 1};
  AttentionBatch& b = s.batch;
  b.rank = 2;
  b.extents[0] = row.windows;
  b.extents[1] = row.heads;
  b.q[0] = b.y[0] = row.heads * row.m * row.depth;
  b.k[0] = b.v[0] = row.heads * row.n * row.depth;
  b.q[1] = b.y[1] = row.by_sequence ? row.depth : row.m * row.depth;
  b.k[1] = b.v[1] = row.by_sequence ? row.depth : row.n * row.depth;
  if (row.window || row.causal) {
    s.masks[0] = {.present = true, .packed = row.window, .row = row.n, .key = 1};
    if (row.window) b.masks[0][1] = PackedAttentionMaskFloats(row.m, row.n);
  }
  return s;
}

// One output from the definition; rows without masks only.
double Reference(const AttentionShape& s, const float* q, const float* k, const float* v,
                 int64_t head, int64_t m, int64_t e) {
  std::vector<double> scores(static_cast<size_t>(s.n));
  double max = -HUGE_VAL, sum = 0, total = 0;
  for (int64_t n = 0; n < s.n; ++n) {
    double dot = 0;
    for (int64_t i = 0; i < s.depth; ++i) {
      dot += double{q[head * s.batch.q[1] + m * s.q.row + i]} *
             double{k[head * s.batch.k[1] + n * s.k.row + i]};
    }
    scores[static_cast<size_t>(n)] = dot * double{s.scale};
    max = std::fmax(max, scores[static_cast<size_t>(n)]);
  }
  for (int64_t n = 0; n < s.n; ++n) {
    const double weight = std::exp(scores[static_cast<size_t>(n)] - max);
    sum += weight;
    total += weight * double{v[head * s.batch.v[1] + n * s.v.row + e]};
  }
  return total / sum;
}

void Run(benchmark::State& state, const Row& row, int threads) {
  const AttentionShape s = ShapeOf(row);
  const int64_t entries = row.windows * row.heads;
  Buffer q(entries * row.m * row.depth, 1), k(entries * row.n * row.depth, 2);
  Buffer v(entries * row.n * row.depth, 3), y(entries * row.m * row.depth);
  Buffer mask(row.heads * PackedAttentionMaskFloats(row.m, row.n) + row.m * row.n, 4);
  const AttentionPlan plan = PlanAttention(s);
  Buffer workspace(static_cast<int64_t>(AttentionWorkspaceBytes(plan, threads) / 4));
  Team team(threads);
  AttentionArgs args{.q = q.data(), .k = k.data(), .v = v.data(), .y = y.data()};
  args.masks[0] = mask.data();
  Attention(plan, args, workspace.data(), team);
  for (int64_t i = 0; i < 20 && !s.masks[0].present; ++i) {
    const int64_t h = i % row.heads, m = i * 7919 % row.m, e = i * 104729 % row.depth;
    const double want = Reference(s, q.data(), k.data(), v.data(), h, m, e);
    if (std::abs(double{y.data()[h * s.batch.y[1] + m * s.y.row + e]} - want) > 1e-5) {
      state.SkipWithError("wrong result");
      return;
    }
  }
  for (auto _ : state) {
    Attention(plan, args, workspace.data(), team);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetLabel(plan.name());
  using benchmark::Counter;
  const double gflops = 4e-9 * static_cast<double>(entries * row.m * row.n * row.depth);
  const double gigabytes = 8e-9 * static_cast<double>(entries * row.n * row.depth);
  state.counters["GFLOPs"] = Counter(gflops, Counter::kIsIterationInvariantRate);
  state.counters["peak"] = Counter(gflops / g_peak, Counter::kIsIterationInvariantRate);
  state.counters["KV_GBs"] = Counter(gigabytes, Counter::kIsIterationInvariantRate);
}

// Takes --simd=NAME out of the arguments and restricts Highway to that target.
void ChooseTarget(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--simd=", 7) != 0) continue;
    for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
      if (std::string(hwy::TargetName(target)) != argv[i] + 7) continue;
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
    }
    for (int j = i; j + 1 < argc; ++j) argv[j] = argv[j + 1];
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
  for (const Row& row : kRows) {
    for (int threads : {1, 2}) {
      const std::string name =
          std::string("attention/") + row.name + "/t" + std::to_string(threads);
      benchmark::RegisterBenchmark(name.c_str(), [&row, threads](benchmark::State& s) {
        Run(s, row, threads);
      })->UseRealTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
