// Counters of the whole server; those of one backend stand in its BackendState.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace parallax::server {

// Cumulative buckets, in milliseconds; the last one holds everything.
struct Histogram {
  static constexpr std::size_t kBounds = 17;
  using Bounds = std::array<double, kBounds>;  // upper bounds of its buckets, rising
  const Bounds& bounds;
  std::array<std::uint64_t, kBounds + 1> counts{};
  double sum = 0;
  std::uint64_t count = 0;
  explicit Histogram(const Bounds& upper) : bounds(upper) {}
  void Add(double value);
};

// From a decision's microseconds to the minutes of a long answer.
inline constexpr Histogram::Bounds kSecondsBounds = {
    2.5e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 0.01, 0.05, 0.1, 0.25, 1, 5, 15, 60, 300};
inline constexpr Histogram::Bounds kRatioBounds = {
    0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 10};

struct Metrics {
  std::map<int, std::uint64_t> answers;            // by status
  std::map<std::string, std::uint64_t> decisions;  // by status of the decision
  std::uint64_t queue_cancelled = 0;  // clients gone before their request was sent anywhere
  std::uint64_t cancelled = 0;        // and after
  std::uint64_t retries = 0;
  std::uint64_t prefix_mispredict = 0;
  Histogram decide_seconds{kSecondsBounds};
  Histogram count_seconds{kSecondsBounds};
  Histogram queue_seconds{kSecondsBounds};
  Histogram ttft_seconds{kSecondsBounds};
  Histogram total_seconds{kSecondsBounds};
  Histogram prediction_error_ratio{kRatioBounds};  // |predicted - measured| / measured
};

}  // namespace parallax::server
