#include "threads/team.h"

#include <sched.h>

#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace parallax {
namespace {

// A spin of this many pauses lasts some tens of microseconds: longer than the gap between two
// operators of one run, much shorter than the gap between two runs.
constexpr int kSpins = 2000;

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
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
  int64_t tasks = 0;
  bool stop = false;

  alignas(64) std::atomic<uint32_t> epoch{0};   // one more for every Run
  alignas(64) std::atomic<int64_t> next{0};     // the next task nobody took
  alignas(64) std::atomic<int32_t> running{0};  // workers still inside the current Run
  std::vector<std::thread> threads;
};

Team::Team(int size) : size_(1), state_(std::make_unique<State>()) {
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
  s.tasks = tasks;
  s.next.store(0, std::memory_order_relaxed);
  s.running.store(size_ - 1, std::memory_order_relaxed);
  s.epoch.fetch_add(1, std::memory_order_release);
  s.epoch.notify_all();
  for (int64_t i; (i = s.next.fetch_add(1, std::memory_order_relaxed)) < tasks;) task(i, 0);
  for (int spins = 0;; ++spins) {
    const int32_t left = s.running.load(std::memory_order_acquire);
    if (left == 0) break;
    if (spins < kSpins) {
      Pause();
    } else {
      s.running.wait(left, std::memory_order_acquire);
    }
  }
}

void Team::WorkerLoop(int worker) {
  State& s = *state_;
  uint32_t seen = 0;
  while (true) {
    for (int spins = 0; s.epoch.load(std::memory_order_acquire) == seen; ++spins) {
      if (spins < kSpins) {
        Pause();
      } else {
        s.epoch.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (s.stop) return;
    const int64_t tasks = s.tasks;
    for (int64_t i; (i = s.next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
      (*s.task)(i, worker);
    }
    if (s.running.fetch_sub(1, std::memory_order_acq_rel) == 1) s.running.notify_one();
  }
}

}  // namespace parallax
