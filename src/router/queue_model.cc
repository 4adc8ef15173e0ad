#include "router/queue_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory_resource>
#include <vector>

namespace parallax::router {
namespace {

constexpr double kLongestMs = 1e12;  // whatever is predicted, sums stay finite
constexpr double kDoneMs = 1e-9;     // rounding of a remaining time that has run out

double Sane(double ms) { return ms > 0 ? std::min(ms, kLongestMs) : 0; }  // NaN counts as 0

// What a running job still occupies its slot for.
double Occupies(const QueueShape& shape, const Job& job) {
  if (!job.cancelled) return Sane(job.prefill_ms) + Sane(job.decode_ms);
  return shape.preemptible_prefill ? 0 : Sane(job.prefill_ms);
}

// The slots over time: what runs, and how long it still would alone.
class Slots {
 public:
  Slots(const QueueShape& shape, std::span<const Job> running, std::pmr::memory_resource* memory)
      : count_(static_cast<size_t>(std::max(shape.slots, 1))),
        sharing_(shape.sharing > 0 ? std::min(shape.sharing, 1.0) : 0),
        now_ms_(Sane(shape.ready_in_ms)),
        left_(memory) {
    left_.reserve(running.size() + count_);
    for (const Job& job : running) Start(Occupies(shape, job));
  }

  bool Free() const { return left_.size() < count_; }
  void Start(double ms) {
    if (ms > kDoneMs) left_.push_back(ms);
  }
  // Runs until the first job ends.
  void Advance() {
    const double least = *std::min_element(left_.begin(), left_.end());
    now_ms_ += least * (1 + sharing_ * static_cast<double>(left_.size() - 1));
    for (double& ms : left_) ms -= least;
    std::erase_if(left_, [](double ms) { return ms <= kDoneMs; });
  }
  double now_ms() const { return std::min(now_ms_, kLongestMs); }
  // What a job of `own_ms` that starts now loses to the others.
  double SharedWith(double own_ms) const {
    double sum = 0;
    for (double ms : left_) sum += std::min(ms, own_ms);
    return std::min(sharing_ * sum, kLongestMs);
  }

 private:
  size_t count_;
  double sharing_;
  double now_ms_;
  std::pmr::vector<double> left_;
};

}  // namespace

QueueWait PredictQueue(const QueueShape& shape, std::span<const Job> running,
                       std::span<const Job> queued, double own_ms) {
  std::array<std::byte, 64 * sizeof(double)> buffer;
  std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size());
  Slots slots(shape, running, &memory);
  for (const Job& job : queued) {
    if (job.cancelled) continue;
    while (!slots.Free()) slots.Advance();
    slots.Start(Sane(job.prefill_ms) + Sane(job.decode_ms));
  }
  while (!slots.Free()) slots.Advance();
  return {slots.now_ms(), slots.SharedWith(Sane(own_ms))};
}

int64_t RetryAfterSeconds(const QueueShape& shape, std::span<const Job> running) {
  std::array<std::byte, 64 * sizeof(double)> buffer;
  std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size());
  Slots slots(shape, running, &memory);
  while (!slots.Free()) slots.Advance();
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(slots.now_ms() / 1000)));
}

}  // namespace parallax::router
