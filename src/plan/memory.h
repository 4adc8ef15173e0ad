// Memory plans: one address for every buffer of a run, decided before it starts.
//
// Role:       the runtime turns liveness into requests and the plan's offsets into pointers.
// Ownership:  values.
// Threads:    pure, deterministic.
// Cost:       O(n^2) for up to kMaxLargestFirst buffers, O(n log n) above.
// Invariants: while the arena is below 2^61 bytes (none above is ever allocated) two requests whose
//             intervals overlap never share a byte; offsets are multiples of kAlignment; a request
//             of zero bytes takes no space.
// Example:
//   MemoryPlan plan = PlanSequential(requests);
//   std::byte* p = arena + plan.offsets[i];
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace parallax::plan {

// A buffer that holds data from step `first` to step `last`, both included.
struct BufferRequest {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // by request
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;  // most bytes alive at one step, alignment included
};

// One arena for steps that run one after another. Buffers are placed largest first, each at the
// lowest gap that its interval leaves free; more than kMaxLargestFirst of them in the order of
// their first steps, each where it fits best, which wastes a little more.
inline constexpr int64_t kMaxLargestFirst = 16384;
MemoryPlan PlanSequential(std::span<const BufferRequest> requests);

}  // namespace parallax::plan
