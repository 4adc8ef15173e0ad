#include "router/breaker.h"

#include <gtest/gtest.h>

namespace parallax::router {
namespace {

constexpr BreakerOptions kOptions{
    .failures_to_open = 3, .backoff_ms = 1000, .max_backoff_ms = 5000};

void Fail(Breaker& breaker, double now, BackendOutcome outcome = BackendOutcome::kConnectFailure) {
  ASSERT_TRUE(breaker.Allows(now));
  breaker.OnDispatch(now);
  breaker.OnOutcome(outcome, now);
}

TEST(Breaker, OpensAfterFailuresInARowOnly) {
  Breaker breaker(kOptions);
  Fail(breaker, 0);
  Fail(breaker, 1, BackendOutcome::kTimeout);
  breaker.OnOutcome(BackendOutcome::kSuccess, 2);
  Fail(breaker, 3, BackendOutcome::kDiedMidStream);
  Fail(breaker, 4, BackendOutcome::kGarbage);
  EXPECT_EQ(breaker.State(5), BreakerState::kClosed);
  Fail(breaker, 5, BackendOutcome::kDiedBeforeFirstByte);
  EXPECT_EQ(breaker.State(5), BreakerState::kOpen);
  EXPECT_FALSE(breaker.Allows(6));
  EXPECT_EQ(breaker.RetryInMs(6), 999);
  EXPECT_EQ(breaker.times_opened(), 1);
}

TEST(Breaker, LetsOneTrialThroughAndBacksOffLonger) {
  Breaker breaker(kOptions);
  for (int i = 0; i < 3; ++i) Fail(breaker, 0);
  double now = 0;
  for (double backoff : {1000.0, 2000.0, 4000.0, 5000.0, 5000.0}) {
    EXPECT_FALSE(breaker.Allows(now + backoff - 1));
    now += backoff;
    EXPECT_EQ(breaker.State(now), BreakerState::kHalfOpen);
    ASSERT_TRUE(breaker.Allows(now));
    breaker.OnDispatch(now);
    EXPECT_FALSE(breaker.Allows(now));  // one at a time
    breaker.OnOutcome(BackendOutcome::kConnectFailure, now);
    EXPECT_EQ(breaker.State(now), BreakerState::kOpen);
  }
  now += 5000;
  breaker.OnDispatch(now);
  breaker.OnOutcome(BackendOutcome::kSuccess, now);
  EXPECT_EQ(breaker.State(now), BreakerState::kClosed);
  EXPECT_EQ(breaker.consecutive_failures(), 0);
  // From the beginning again.
  for (int i = 0; i < 3; ++i) Fail(breaker, now);
  EXPECT_EQ(breaker.RetryInMs(now), 1000);
}

TEST(Breaker, IsNeverTrippedByTheClientsFaults) {
  Breaker breaker(kOptions);
  Fail(breaker, 0);
  Fail(breaker, 0);
  for (BackendOutcome outcome : {BackendOutcome::kContextOverflow, BackendOutcome::kClientError,
                                 BackendOutcome::kClientCancelled}) {
    EXPECT_FALSE(IsFailure(outcome));
    for (int i = 0; i < 100; ++i) Fail(breaker, 1, outcome);
    EXPECT_EQ(breaker.consecutive_failures(), 2);
    EXPECT_EQ(breaker.State(1), BreakerState::kClosed);
  }
}

TEST(Breaker, ATrialThatEndsNeutrallyFreesItsPlace) {
  Breaker breaker(kOptions);
  for (int i = 0; i < 3; ++i) Fail(breaker, 0);
  breaker.OnDispatch(1000);
  EXPECT_FALSE(breaker.Allows(1500));
  breaker.OnOutcome(BackendOutcome::kClientCancelled, 1500);
  EXPECT_TRUE(breaker.Allows(1500));
  EXPECT_EQ(breaker.State(1500), BreakerState::kHalfOpen);
}

TEST(Breaker, LateFailuresOfEarlierRequestsDoNotProlongIt) {
  Breaker breaker(kOptions);
  for (int i = 0; i < 3; ++i) Fail(breaker, 0);
  breaker.OnOutcome(BackendOutcome::kDiedMidStream, 900);
  EXPECT_EQ(breaker.RetryInMs(900), 100);
  EXPECT_EQ(breaker.times_opened(), 1);
}

TEST(Breaker, SurvivesAClockThatJumps) {
  Breaker breaker(kOptions);
  for (int i = 0; i < 3; ++i) Fail(breaker, 1e9);
  EXPECT_TRUE(breaker.Allows(5));  // back by days: tried at once, not after days
  breaker.OnDispatch(5);
  breaker.OnOutcome(BackendOutcome::kTimeout, 5);
  EXPECT_FALSE(breaker.Allows(6));
  EXPECT_TRUE(breaker.Allows(1e12));
}

}  // namespace
}  // namespace parallax::router
