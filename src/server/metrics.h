// Counters of the whole server; those of one backend stand in its BackendState.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace parallax::server {

// Cumulative buckets, in milliseconds; the last one holds everything.
struct Histogram {
  static constexpr std::array<double, 15> kBounds = {0.1, 0.25, 0.5,  1,    2.5,   5,     10,    50,
                                                     100, 250,  1000, 5000, 15000, 60000, 300000};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};
  double sum = 0;
  std::uint64_t count = 0;
  void Add(double value);
};

struct Metrics {
  std::map<int, std::uint64_t> answers;            // by status
  std::map<std::string, std::uint64_t> decisions;  // by status of the decision
  std::uint64_t queue_cancelled = 0;  // clients gone before their request was sent anywhere
  std::uint64_t cancelled = 0;        // and after
  std::uint64_t retries = 0;
  std::uint64_t prefix_mispredict = 0;
  Histogram decide_us;  // bounds and sum are microseconds here
  Histogram count_ms;
  Histogram queue_ms;
  Histogram ttft_ms;
  Histogram total_ms;
  Histogram prediction_error_pct;  // |predicted - measured| / measured
};

}  // namespace parallax::server
