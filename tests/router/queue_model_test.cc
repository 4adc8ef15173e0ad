#include "router/queue_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace parallax::router {
namespace {

using Jobs = std::vector<Job>;

QueueWait Predict(const QueueShape& shape, const Jobs& running, const Jobs& queued,
                  double own = 0) {
  return PredictQueue(shape, running, queued, own);
}

TEST(QueueModel, IdleBackendsStartAtOnce) {
  EXPECT_EQ(Predict({}, {}, {}).start_ms, 0);
  EXPECT_EQ(Predict({.slots = 4}, {}, {}, 1000).sharing_ms, 0);
  EXPECT_EQ(Predict({.ready_in_ms = 2500}, {}, {}).start_ms, 2500);
}

TEST(QueueModel, OneSlotIsFirstComeFirstServed) {
  const Jobs running = {{.prefill_ms = 100, .decode_ms = 200}};
  const Jobs queued = {{.prefill_ms = 10, .decode_ms = 20}, {.prefill_ms = 1, .decode_ms = 2}};
  EXPECT_DOUBLE_EQ(Predict({}, running, {}).start_ms, 300);
  EXPECT_DOUBLE_EQ(Predict({}, running, queued).start_ms, 333);
  EXPECT_DOUBLE_EQ(Predict({.ready_in_ms = 1000}, {}, queued).start_ms, 1033);
}

TEST(QueueModel, IndependentSlotsTakeTheNextThatIsFree) {
  const QueueShape two{.slots = 2, .sharing = 0};
  const Jobs running = {{.decode_ms = 100}, {.decode_ms = 400}};
  EXPECT_DOUBLE_EQ(Predict(two, running, {}).start_ms, 100);
  // The first waits until 100 and ends at 350; the second would start then.
  EXPECT_DOUBLE_EQ(Predict(two, running, {{.decode_ms = 250}}).start_ms, 350);
  EXPECT_DOUBLE_EQ(Predict(two, running, {{.decode_ms = 900}}).start_ms, 400);
  EXPECT_DOUBLE_EQ(Predict(two, running, {}, 50).sharing_ms, 0);
}

// One processor shared evenly: remaining 100 and 400 end at 200 and 500.
TEST(QueueModel, SharedSlotsSlowEachOther) {
  const QueueShape two{.slots = 2, .sharing = 1};
  const Jobs running = {{.decode_ms = 100}, {.decode_ms = 400}};
  EXPECT_DOUBLE_EQ(Predict(two, running, {}).start_ms, 200);
  // Then 300 are left beside it: T = 50 loses 50, T = 1000 loses 300.
  EXPECT_DOUBLE_EQ(Predict(two, running, {}, 50).sharing_ms, 50);
  EXPECT_DOUBLE_EQ(Predict(two, running, {}, 1000).sharing_ms, 300);
  // Half shared: while two run, each goes at 1 / 1.5.
  const QueueShape half{.slots = 2, .sharing = 0.5};
  EXPECT_DOUBLE_EQ(Predict(half, running, {}).start_ms, 150);
  EXPECT_DOUBLE_EQ(Predict(half, running, {}, 1000).sharing_ms, 150);
}

TEST(QueueModel, CancelledJobs) {
  const Jobs running = {{.prefill_ms = 1300, .decode_ms = 4000, .cancelled = true}};
  EXPECT_EQ(Predict({.preemptible_prefill = true}, running, {}).start_ms, 0);
  EXPECT_DOUBLE_EQ(Predict({.preemptible_prefill = false}, running, {}).start_ms, 1300);
  // Past its prefill it ends at the next token; waiting, it never starts.
  EXPECT_EQ(Predict({.preemptible_prefill = false}, {{.decode_ms = 4000, .cancelled = true}}, {})
                .start_ms,
            0);
  EXPECT_EQ(Predict({}, {}, {{.prefill_ms = 500, .cancelled = true}}).start_ms, 0);
}

TEST(QueueModel, MoreRunningThanSlots) {
  // Another client's work: it must drain below the slots first.
  const Jobs running = {{.decode_ms = 100}, {.decode_ms = 200}, {.decode_ms = 300}};
  EXPECT_DOUBLE_EQ(Predict({.slots = 1, .sharing = 0}, running, {}).start_ms, 300);
  EXPECT_DOUBLE_EQ(Predict({.slots = 0, .sharing = 0}, running, {}).start_ms, 300);
}

TEST(QueueModel, RetryAfterIsWholeSecondsUntilASlotIsFree) {
  EXPECT_EQ(RetryAfterSeconds({}, {}), 1);
  EXPECT_EQ(RetryAfterSeconds({}, Jobs{{.decode_ms = 10}}), 1);
  EXPECT_EQ(RetryAfterSeconds({}, Jobs{{.prefill_ms = 1000, .decode_ms = 1001}}), 3);
  EXPECT_EQ(RetryAfterSeconds({.ready_in_ms = 7000}, {}), 7);
}

TEST(QueueModel, NonsenseStaysFinite) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (double bad : {inf, nan, -5.0, 1e300}) {
    const Jobs jobs = {{.prefill_ms = bad, .decode_ms = bad}, {.prefill_ms = bad, .decode_ms = 1}};
    const QueueWait w = Predict({.slots = 1, .ready_in_ms = bad, .sharing = bad}, jobs, jobs, bad);
    EXPECT_TRUE(std::isfinite(w.start_ms) && w.start_ms >= 0) << bad;
    EXPECT_TRUE(std::isfinite(w.sharing_ms) && w.sharing_ms >= 0) << bad;
    EXPECT_GE(RetryAfterSeconds({.ready_in_ms = bad}, jobs), 1);
  }
}

// A second implementation: small steps of time. Jobs are whole tens, steps of 1/8 ms per active
// job.
double StartBySteps(const QueueShape& shape, Jobs running, Jobs queued) {
  std::vector<double> left;
  for (const Job& job : running) {
    const double keeps = shape.preemptible_prefill ? 0 : job.prefill_ms;
    left.push_back(job.cancelled ? keeps : job.prefill_ms + job.decode_ms);
  }
  std::erase(left, 0.0);
  constexpr double kStep = 0.125;
  double now = 0;
  size_t next = 0;
  while (true) {
    while (next < queued.size() &&
           (queued[next].cancelled || left.size() < static_cast<size_t>(shape.slots))) {
      if (!queued[next].cancelled) left.push_back(queued[next].prefill_ms + queued[next].decode_ms);
      ++next;
    }
    if (next == queued.size() && left.size() < static_cast<size_t>(shape.slots)) return now;
    const double speed = 1 / (1 + shape.sharing * static_cast<double>(left.size() - 1));
    now += kStep;
    for (double& l : left) l -= kStep * speed;
    std::erase_if(left, [](double l) { return l <= 1e-9; });
  }
}

TEST(QueueModel, AgreesWithSmallSteps) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const QueueShape shape{.slots = 1 + static_cast<int>(random() % 3),
                           .preemptible_prefill = random() % 2 == 0,
                           .sharing = 0.5 * static_cast<double>(random() % 3)};
    const auto job = [&] {
      return Job{.prefill_ms = 10.0 * static_cast<double>(random() % 5),
                 .decode_ms = 10.0 * static_cast<double>(1 + random() % 9),
                 .cancelled = random() % 6 == 0};
    };
    Jobs running, queued;
    for (size_t n = random() % 4; n > 0; --n) running.push_back(job());
    for (size_t n = random() % 5; n > 0; --n) queued.push_back(job());
    // Each end is found at most a step late, and each job's lateness delays the next.
    const double slack = 0.25 * static_cast<double>(1 + running.size() + queued.size());
    EXPECT_NEAR(Predict(shape, running, queued).start_ms, StartBySteps(shape, running, queued),
                slack);
  }
}

}  // namespace
}  // namespace parallax::router
