// A Loop whose time passes only when a test says so.
//
// Role:       the clock of every test that waits; nothing in it takes real time.
// Ownership:  owns what was posted until it has run; declared before whatever uses it.
// Threads:    one.
// Invariants: as loop.h says: callbacks never run inside the call that posted them; timers fire in
//             order of time, those of one time in the order of their creation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "server/loop.h"

namespace parallax::server::fake {

class FakeLoop final : public Loop {
 public:
  double NowMs() const override { return now_ms_; }
  double WallMs() const override { return now_ms_ + wall_offset_ms; }
  void Post(std::function<void()> task) override { posted_.push_back(std::move(task)); }
  TimerId After(double delay_ms, std::function<void()> task) override {
    const TimerId id = ++last_id_;
    const Key key{now_ms_ + (delay_ms > 0 ? delay_ms : 0), id};
    timers_[key] = std::move(task);
    keys_[id] = key;
    return id;
  }
  void CancelTimer(TimerId id) override {
    const auto found = keys_.find(id);
    if (found == keys_.end()) return;
    timers_.erase(found->second);
    keys_.erase(found);
  }

  // Everything that is due now, and what that posts, up to a bound that only a loop without end
  // reaches.
  void RunReady() {
    for (int turn = 0; turn < kMostTurns; ++turn) {
      if (!posted_.empty()) {
        const auto task = std::move(posted_.front());
        posted_.pop_front();
        ++turns;
        task();
      } else if (!timers_.empty() && timers_.begin()->first.first <= now_ms_) {
        FireFirst();
      } else {
        return;
      }
    }
    ran_away = true;
  }
  void RunFor(double ms) { RunTo(now_ms_ + ms); }
  void RunTo(double time_ms) {
    RunReady();
    while (!ran_away && !timers_.empty() && timers_.begin()->first.first <= time_ms) {
      now_ms_ = timers_.begin()->first.first;
      RunReady();
    }
    now_ms_ = time_ms;
  }
  // True where `done` came true within `limit_ms`; stops at that moment.
  template <class Done>
  bool RunUntil(Done done, double limit_ms = 1e9) {
    const double last = now_ms_ + limit_ms;
    for (RunReady(); !done(); RunReady()) {
      if (ran_away || timers_.empty() || timers_.begin()->first.first > last) return false;
      now_ms_ = timers_.begin()->first.first;
    }
    return true;
  }

  std::size_t timers() const { return timers_.size(); }
  double wall_offset_ms = 1'700'000'000'000;  // tests of clock jumps change it
  std::uint64_t turns = 0;                    // callbacks run so far: shows what spins
  bool ran_away = false;                      // something posts itself again without end

 private:
  using Key = std::pair<double, TimerId>;
  static constexpr int kMostTurns = 1'000'000;

  void FireFirst() {
    const auto first = timers_.begin();
    const auto task = std::move(first->second);
    keys_.erase(first->first.second);
    timers_.erase(first);
    ++turns;
    task();
  }

  double now_ms_ = 1'000'000;  // its zero means nothing
  TimerId last_id_ = 0;
  std::deque<std::function<void()>> posted_;
  std::map<Key, std::function<void()>> timers_;
  std::map<TimerId, Key> keys_;
};

}  // namespace parallax::server::fake
