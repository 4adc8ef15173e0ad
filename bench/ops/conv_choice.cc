// Does PlanConv choose the fastest algorithm? Every candidate for 3x3 convolutions with stride 1 over a
// grid of channels and sizes, timed in turn; what was chosen, and what the choice loses.
//
//   build/release/conv_choice [--simd=AVX2] [--all]
// Prints the shapes where more than 5% are lost (--all: every shape), then the mean loss. The rates
// in src/kernels/conv/choice.cc come from this table.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/targets.h"

#include <hwy/targets.h>

#include "base/allocator.h"
#include "kernels/conv/conv.h"
#include "kernels/limits/limits.h"

namespace parallax::bench {
namespace {

using namespace kernels;  // NOLINT: a program of its own

constexpr ConvAlgorithm kCandidates[] = {ConvAlgorithm::kIndirectGemm, ConvAlgorithm::kWinograd2,
                                         ConvAlgorithm::kWinograd4};
constexpr size_t kCount = std::size(kCandidates);
constexpr double kMacs[] = {100, 70e6};  // smaller shapes tell of the clock, larger ones take long

// Floats at an address as tensors have it.
class Floats {
 public:
  Floats(int64_t n, std::mt19937* random) : Floats(static_cast<size_t>(n) * sizeof(float)) {
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (int64_t i = 0; i < n; ++i) data_[i] = uniform(*random);
  }
  explicit Floats(size_t bytes)
      : bytes_(bytes), data_(static_cast<float*>(SystemAllocator().Allocate(bytes))) {
    if (data_ != nullptr) std::memset(data_, 0, bytes);
  }
  ~Floats() { SystemAllocator().Free(data_, bytes_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* get() { return data_; }

 private:
  size_t bytes_;
  float* data_;
};

ConvShape ShapeOf(int64_t in, int64_t out, int64_t size) {
  ConvShape s{.layout = ConvLayout::kChannelsLast, .in_channels = in, .out_channels = out};
  for (int axis = 0; axis < 2; ++axis) {
    s.in[axis] = s.out[axis] = size;
    s.kernel[axis] = 3;
    s.pads_begin[axis] = 1;
  }
  return s;
}

// The fastest of some turns of each candidate, in seconds.
std::vector<double> Times(const ConvShape& s, double macs, Team& team) {
  std::mt19937 random(1);
  Floats x(s.in_channels * s.InSize(), &random);
  Floats w(s.out_channels * s.in_channels * s.KernelSize(), &random);
  Floats y(static_cast<size_t>(s.out_channels * s.OutSize()) * sizeof(float));
  std::vector<ConvPlan> plans;
  std::vector<std::unique_ptr<Floats>> packed, workspaces;
  for (ConvAlgorithm algorithm : kCandidates) {
    plans.push_back(PlanConv(s, {.algorithm = algorithm}));
    packed.push_back(std::make_unique<Floats>(plans.back().packed_weight_bytes));
    workspaces.push_back(std::make_unique<Floats>(ConvWorkspaceBytes(plans.back(), 1) + 64));
    PackConvWeights(plans.back(), w.get(), packed.back()->get());
  }
  const int repeats = static_cast<int>(std::clamp(2e-3 * 60e9 / macs, 1.0, 200.0));
  std::vector<double> best(kCount, 1e9);
  for (int turn = 0; turn < 12; ++turn) {
    for (size_t i = 0; i < kCount; ++i) {
      const auto start = std::chrono::steady_clock::now();
      for (int r = 0; r < repeats; ++r) {
        Conv(plans[i], x.get(), packed[i]->get(), nullptr, {}, y.get(), workspaces[i]->get(), team);
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best[i] = std::min(best[i], took.count() / repeats);
    }
  }
  return best;
}

int Main(bool all) {
  Team team(1);
  fmt::print("FMA peak {:.0f} GFLOP/s\n", MeasureFmaPeak(team));
  fmt::print("{:>5} {:>5} {:>5}", "in", "out", "size");
  for (ConvAlgorithm a : kCandidates) {
    fmt::print(" {:>20}", PlanConv(ShapeOf(8, 8, 8), {.algorithm = a}).name());
  }
  fmt::print("  us; chosen, time over the best\n");
  double log_sum = 0, worst = 1;
  int shapes = 0;
  for (int64_t in : {1, 2, 3, 4, 8, 16, 32, 64, 128, 256}) {
    for (int64_t out : {1, 4, 8, 16, 32, 64, 128, 256}) {
      for (int64_t size : {2, 3, 4, 5, 6, 7, 10, 14, 20, 40, 80}) {
        const ConvShape s = ShapeOf(in, out, size);
        const double macs = static_cast<double>(in * out * 9 * size * size);
        if (macs < kMacs[0] || macs > kMacs[1]) continue;
        const std::vector<double> times = Times(s, macs, team);
        const ConvPlan chosen = PlanConv(s);
        const auto at = static_cast<size_t>(
            std::find(kCandidates, kCandidates + kCount, chosen.algorithm) - kCandidates);
        if (at == kCount) continue;
        const double loss = times[at] / *std::min_element(times.begin(), times.end());
        log_sum += std::log(loss);
        worst = std::max(worst, loss);
        ++shapes;
        if (!all && loss < 1.05) continue;
        fmt::print("{:5} {:5} {:5}", in, out, size);
        for (double t : times) fmt::print(" {:20.2f}", t * 1e6);
        fmt::print("  {}, {:.2f}\n", chosen.name(), loss);
      }
    }
  }
  fmt::print("{} shapes: {:.3f} times the best in the geometric mean, {:.2f} at most\n", shapes,
             std::exp(log_sum / shapes), worst);
  return 0;
}

}  // namespace
}  // namespace parallax::bench

int main(int count, char** arguments) {
  bool all = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--all") {
      all = true;
    } else if (argument == "--simd=AVX2") {
      hwy::SetSupportedTargetsForTest(HWY_AVX2);
      hwy::GetChosenTarget().Update(HWY_AVX2);
    } else {
      fmt::print(stderr, "usage: conv_choice [--simd=AVX2] [--all]\n");
      return 2;
    }
  }
  return parallax::bench::Main(all);
}
