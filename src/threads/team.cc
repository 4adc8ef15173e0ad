#include "threads/team.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace parallax {
namespace {

// How long a thread that waits spins before it parks: about what waking a parked one costs (30 us, in
// a virtual machine 100 to 250), so that waiting never costs more than twice the better choice.
constexpr std::chrono::microseconds kSpinTime{200};
constexpr int kPausesPerLook = 64;  // at the clock

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Calls `ready` until it holds, for kSpinTime at most; whether it came to hold.
template <typename Ready>
bool Spin(Ready ready) {
  std::chrono::steady_clock::time_point end{};
  while (true) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (ready()) return true;
      Pause();
    }
    const auto now = std::chrono::steady_clock::now();
    if (end == std::chrono::steady_clock::time_point{}) end = now + kSpinTime;
    if (now >= end) return false;
  }
}

}  // namespace

int UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set) < 1 ? 1 : CPU_COUNT(&set);
}

struct Team::State {
  // Written by Run before `epoch` moves, read by workers after they see it move.
  const Task* task = nullptr;
  bool stop = false;

  // The tasks of one worker: a contiguous part of the range, taken from its front, first by the
  // worker itself. The same parts of equal ranges go to the same worker, Run after Run, so what one
  // operator wrote is in the cache of the core that reads it in the next.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  explicit State(int size) : shares(static_cast<size_t>(size)) {}

  void Work(int worker) {
    const int size = static_cast<int>(shares.size());
    for (int i = 0; i < size; ++i) {  // its own share, then what is left of the others'
      Share& share = shares[static_cast<size_t>((worker + i) % size)];
      for (int64_t t; (t = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        (*task)(t, worker);
      }
    }
  }

  alignas(64) std::atomic<uint32_t> epoch{0};   // one more for every Run
  alignas(64) std::atomic<int32_t> running{0};  // workers still inside the current Run
  std::vector<Share> shares;                    // one of each worker
  std::vector<std::thread> threads;
};

Team::Team(int size) : size_(1), state_(std::make_unique<State>(size)) {
  if (size > 1) state_->threads.reserve(static_cast<size_t>(size - 1));
  try {
    for (; size_ < size; ++size_) {
      state_->threads.emplace_back([this, worker = size_] { WorkerLoop(worker); });
    }
  } catch (const std::system_error&) {  // no more threads, by a limit of the process or user
  } catch (const std::bad_alloc&) {
  }
}

Team::~Team() {
  state_->stop = true;
  state_->epoch.fetch_add(1, std::memory_order_release);
  state_->epoch.notify_all();
  for (std::thread& t : state_->threads) t.join();
}

void Team::Run(int64_t tasks, Task task) {
  if (size_ == 1 || tasks <= 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i, 0);
    return;
  }
  State& s = *state_;
  s.task = &task;
  const int64_t shares = static_cast<int64_t>(s.shares.size());
  for (int64_t i = 0; i < shares; ++i) {
    State::Share& share = s.shares[static_cast<size_t>(i)];
    share.next.store(tasks * i / shares, std::memory_order_relaxed);
    share.end = tasks * (i + 1) / shares;
  }
  s.running.store(size_ - 1, std::memory_order_relaxed);
  s.epoch.fetch_add(1, std::memory_order_release);
  s.epoch.notify_all();
  s.Work(0);
  if (Spin([&] { return s.running.load(std::memory_order_acquire) == 0; })) return;
  for (int32_t left; (left = s.running.load(std::memory_order_acquire)) != 0;) {
    s.running.wait(left, std::memory_order_acquire);
  }
}

void Team::WorkerLoop(int worker) {
  State& s = *state_;
  uint32_t seen = 0;
  while (true) {
    if (!Spin([&] { return s.epoch.load(std::memory_order_acquire) != seen; })) {
      s.epoch.wait(seen, std::memory_order_acquire);
    }
    ++seen;
    if (s.stop) return;
    s.Work(worker);
    if (s.running.fetch_sub(1, std::memory_order_acq_rel) == 1) s.running.notify_one();
  }
}

}  // namespace parallax
