#include "plan/memory.h"

#include <algorithm>
#include <numeric>

#include "base/allocator.h"
#include "base/checked.h"

namespace parallax::plan {
namespace {

int64_t Aligned(int64_t bytes) { return RoundUp(bytes, static_cast<int64_t>(kAlignment)); }

int64_t LowerBound(std::span<const BufferRequest> requests) {
  struct Event {
    int32_t step;
    int64_t change;
  };
  std::vector<Event> events;
  for (const BufferRequest& r : requests) {
    events.push_back({r.first, Aligned(r.bytes)});
    events.push_back({r.last + 1, -Aligned(r.bytes)});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.step != b.step ? a.step < b.step : a.change < b.change;
  });
  int64_t alive = 0, most = 0;
  for (const Event& e : events) {
    alive += e.change;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

MemoryPlan PlanSequential(std::span<const BufferRequest> requests) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  plan.lower_bound = LowerBound(requests);
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const BufferRequest& r = requests[i];
    const int64_t size = Aligned(r.bytes);
    if (size == 0) continue;
    int64_t offset = 0;
    for (size_t p : placed) {
      const BufferRequest& other = requests[p];
      if (other.last < r.first || r.last < other.first) continue;
      if (plan.offsets[p] - offset >= size) break;  // the gap before this neighbour is enough
      offset = std::max(offset, plan.offsets[p] + Aligned(other.bytes));
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + size);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

}  // namespace parallax::plan
