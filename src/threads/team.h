// Team: a fixed set of threads that splits a range of tasks and joins.
//
// Role:       operators split their work over it; the caller is worker 0.
// Ownership:  owns its threads; the destructor joins them.
// Threads:    one Run at a time per team; a second caller must bring its own team.
// Cost:       fork and join by spinning (under 1 us) while work keeps coming; idle workers park
//             after 200 us and cost nothing. Run allocates nothing.
// Placement:  worker w begins with the w-th contiguous part of the range and helps others when it is
//             done. Kernels number their tasks along the outermost extent, so that what a worker
//             wrote in one operator it reads in the next, from its own cache.
// Invariants: every task runs exactly once; Run returns after all have finished. What a task
//             computes must not depend on the worker that runs it, so results are the same bits
//             for every team size.
// Example:
//   Team team(2);
//   team.Run(tiles, [&](int64_t tile, int worker) { ComputeTile(tile, scratch[worker]); });
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace parallax {

// CPUs that this process may run on (its CPU set), at least 1: the default size of a team.
int UsableCpus();

class Team {
 public:
  using Task = FunctionRef<void(int64_t task, int worker)>;

  // `size` >= 1 counts the caller: Team(1) starts no thread. Where the system refuses a thread the
  // team stays smaller, which size() tells.
  explicit Team(int size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Calls task(i, worker) for every i in [0, tasks), worker in [0, size()).
  void Run(int64_t tasks, Task task);

 private:
  struct State;
  void WorkerLoop(int worker);

  int size_;  // fixed once constructed
  std::unique_ptr<State> state_;
};

}  // namespace parallax
