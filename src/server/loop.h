// Loop: the one thread on which the server lives, with its clock and its timers.
//
// Role:       every part of the server that waits takes a Loop; tests give it a clock of their own.
// Ownership:  a Loop owns what was posted until it has run; it outlives every part that uses it.
// Threads:    all members are called on the loop's thread, and all callbacks run there: the state
//             of the server needs no locks.
// Invariants: a callback never runs inside the call that posted it; timers fire in order of time,
//             those of one time in the order of their creation; a cancelled timer does not fire.
#pragma once

#include <cstdint>
#include <functional>

namespace parallax::server {

using TimerId = std::uint64_t;  // 0 is no timer

class Loop {
 public:
  virtual ~Loop() = default;
  // Milliseconds of a clock that never jumps; its zero means nothing.
  virtual double NowMs() const = 0;
  // Milliseconds since 1970 by the wall clock: for records, never for waiting.
  virtual double WallMs() const = 0;
  virtual void Post(std::function<void()> task) = 0;
  // Runs `task` once, `delay_ms` from now (at the next turn where it is not positive).
  virtual TimerId After(double delay_ms, std::function<void()> task) = 0;
  // Does nothing for a timer that has fired or does not exist.
  virtual void CancelTimer(TimerId id) = 0;
};

}  // namespace parallax::server
