#include "plan/memory.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace parallax::plan {
namespace {

bool Overlap(int64_t a, int64_t a_end, int64_t b, int64_t b_end) { return a < b_end && b < a_end; }

TEST(PlanSequential, NeverSharesLiveBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<BufferRequest> requests(random() % 40);
    for (BufferRequest& r : requests) {
      r.bytes = static_cast<int64_t>(random() % 1000);
      r.first = static_cast<int32_t>(random() % 30);
      r.last = r.first + static_cast<int32_t>(random() % 10);
    }
    const MemoryPlan plan = PlanSequential(requests);
    EXPECT_GE(plan.arena_bytes, plan.lower_bound);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0);
      EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.arena_bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool live = Overlap(requests[i].first, requests[i].last + 1, requests[j].first,
                                  requests[j].last + 1);
        const bool shared = Overlap(plan.offsets[i], plan.offsets[i] + requests[i].bytes,
                                    plan.offsets[j], plan.offsets[j] + requests[j].bytes);
        EXPECT_FALSE(live && shared) << round;
      }
    }
  }
}

// So many buffers that they are placed in the order of their steps.
TEST(PlanSequential, ManyBuffersNeverShareLiveBytes) {
  std::mt19937 random(2);
  std::vector<BufferRequest> requests(kMaxLargestFirst + 1000);
  for (size_t i = 0; i < requests.size(); ++i) {
    BufferRequest& r = requests[i];
    r.bytes = 1 + static_cast<int64_t>(random() % 1000);
    r.first = static_cast<int32_t>(random() % 8000);
    r.last = r.first + static_cast<int32_t>(random() % 20);
  }
  const MemoryPlan plan = PlanSequential(requests);
  EXPECT_GE(plan.arena_bytes, plan.lower_bound);
  EXPECT_LT(plan.arena_bytes, 2 * plan.lower_bound);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(plan.offsets[i] % 64, 0);
    ASSERT_LE(plan.offsets[i] + requests[i].bytes, plan.arena_bytes);
  }
  // At every step, buffers by address.
  std::vector<std::vector<size_t>> alive(8020);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int32_t s = requests[i].first; s <= requests[i].last; ++s) {
      alive[static_cast<size_t>(s)].push_back(i);
    }
  }
  for (std::vector<size_t>& step : alive) {
    std::sort(step.begin(), step.end(),
              [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    for (size_t k = 1; k < step.size(); ++k) {
      ASSERT_LE(plan.offsets[step[k - 1]] + requests[step[k - 1]].bytes, plan.offsets[step[k]]);
    }
  }
}

// Sizes whose sum is beyond int64: the plan says "too large", it does not wrap.
TEST(PlanSequential, SumsDoNotWrap) {
  const std::vector<BufferRequest> requests(40, BufferRequest{int64_t{1} << 59, 0, 1});
  const MemoryPlan plan = PlanSequential(requests);
  EXPECT_GE(plan.arena_bytes, int64_t{1} << 59);
  EXPECT_GE(plan.lower_bound, int64_t{1} << 59);
}

// A chain alternates between two buffers: the bound is reached.
TEST(PlanSequential, ChainNeedsTwoBuffers) {
  std::vector<BufferRequest> requests;
  for (int32_t i = 0; i < 10; ++i) requests.push_back({1024, i, i + 1});
  const MemoryPlan plan = PlanSequential(requests);
  EXPECT_EQ(plan.lower_bound, 2048);
  EXPECT_EQ(plan.arena_bytes, 2048);
}

TEST(PlanSequential, ZeroBytesTakeNoSpace) {
  const BufferRequest none{0, 0, 5};
  EXPECT_EQ(PlanSequential({&none, 1}).arena_bytes, 0);
}

}  // namespace
}  // namespace parallax::plan
