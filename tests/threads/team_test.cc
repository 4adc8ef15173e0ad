#include "threads/team.h"

#include <atomic>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace parallax {
namespace {

TEST(Team, RunsEveryTaskOnce) {
  for (int size : {1, 2, 3, 8}) {
    Team team(size);
    for (int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> count(static_cast<size_t>(tasks));
      team.Run(tasks, [&](int64_t i, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, size);
        count[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const std::atomic<int>& c : count) EXPECT_EQ(c.load(), 1);
    }
  }
}

// Many short runs back to back, and pauses long enough for the workers to park in between.
TEST(Team, SurvivesBurstsAndPauses) {
  Team team(4);
  int64_t total = 0;
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int64_t> sum{0};
    team.Run(16, [&](int64_t i, int) { sum.fetch_add(i); });
    total += sum.load();
    if (round % 500 == 0) {
      volatile int spin = 0;
      for (int k = 0; k < 3000000; ++k) spin = spin + 1;
    }
  }
  EXPECT_EQ(total, 2000 * 120);
}

}  // namespace
}  // namespace parallax
