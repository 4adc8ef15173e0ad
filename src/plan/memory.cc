#include "plan/memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/allocator.h"
#include "base/checked.h"

namespace parallax::plan {
namespace {

// Sums stop here: no arena of that size is ever allocated, and one more buffer still fits int64.
constexpr int64_t kEnd = int64_t{1} << 61;

int64_t Aligned(int64_t bytes) {
  return RoundUp(std::clamp<int64_t>(bytes, 0, kEnd), static_cast<int64_t>(kAlignment));
}

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
    // The true sum may pass int64; what counts is that it is too large.
    alive = CheckedAdd(alive, e.change).value_or(kEnd);
    most = std::max(most, std::min(alive, kEnd));
  }
  return most;
}

// Free blocks below the end of an arena, neighbours merged; takes the smallest that is enough.
class FreeBlocks {
 public:
  int64_t Take(int64_t size) {
    auto it = by_size_.lower_bound({size, 0});
    int64_t offset = end_;
    int64_t found = 0;
    if (it != by_size_.end()) {
      std::tie(found, offset) = *it;
    } else if (!by_offset_.empty() &&
               by_offset_.rbegin()->first + by_offset_.rbegin()->second == end_) {
      std::tie(offset, found) = *by_offset_.rbegin();  // the last block, made longer
    }
    if (found > 0) Erase(offset, found);
    if (found > size) Insert(offset + size, found - size);
    end_ = std::min(kEnd, std::max(end_, offset + size));
    return offset;
  }
  void Give(int64_t offset, int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      const int64_t more = next->second;
      Erase(offset + size, more);
      size += more;
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto [before, length] = *std::prev(next);
      if (before + length == offset) {
        Erase(before, length);
        offset = before;
        size += length;
      }
    }
    Insert(offset, size);
  }
  int64_t end() const { return end_; }

 private:
  void Insert(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void Erase(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// Step by step: buffers get the block that fits best when they begin to live.
void PlaceInOrder(std::span<const BufferRequest> requests, MemoryPlan* plan) {
  std::vector<size_t> begins(requests.size());
  std::iota(begins.begin(), begins.end(), size_t{0});
  std::vector<size_t> ends = begins;
  std::stable_sort(begins.begin(), begins.end(), [&](size_t a, size_t b) {
    return requests[a].first != requests[b].first ? requests[a].first < requests[b].first
                                                  : requests[a].bytes > requests[b].bytes;
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](size_t a, size_t b) { return requests[a].last < requests[b].last; });
  FreeBlocks free;
  size_t ended = 0;
  for (size_t i : begins) {
    for (; requests[ends[ended]].last < requests[i].first; ++ended) {
      const size_t gone = ends[ended];
      const int64_t size = Aligned(requests[gone].bytes);
      if (size > 0) free.Give(plan->offsets[gone], size);
    }
    if (Aligned(requests[i].bytes) == 0) continue;
    plan->offsets[i] = free.Take(Aligned(requests[i].bytes));
  }
  plan->arena_bytes = free.end();
}

}  // namespace

MemoryPlan PlanSequential(std::span<const BufferRequest> requests) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  plan.lower_bound = LowerBound(requests);
  if (plan.lower_bound >= kEnd) {
    plan.arena_bytes = kEnd;
    return plan;
  }
  const auto takes_space = [](const BufferRequest& r) { return r.bytes > 0; };
  if (std::count_if(requests.begin(), requests.end(), takes_space) > kMaxLargestFirst) {
    PlaceInOrder(requests, &plan);
    return plan;
  }
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
      offset = std::min(kEnd, std::max(offset, plan.offsets[p] + Aligned(other.bytes)));
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::min(kEnd, std::max(plan.arena_bytes, offset + size));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

}  // namespace parallax::plan
