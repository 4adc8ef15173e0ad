// Environment: what all plans and bodies of one session share.
//
// Role:       passed down to programs and runners.
// Ownership:  owned by the session; borrows team and allocator.
// Threads:    used under the session's lock.
#pragma once

#include <memory>
#include <vector>

#include "ir/tensor.h"
#include "runtime/observer.h"
#include "runtime/pack_store.h"
#include "runtime/result_blocks.h"
#include "threads/team.h"

namespace parallax::runtime {

// How a session computes; the same for all its runs.
struct ExecutionOptions {
  bool lower = true;  // fuse operators and choose layouts; off: the nodes of the model one by one
  bool precise = false;  // nothing changes what is multiplied and added for speed
};

class Environment {
 public:
  Environment(Team& session_team, Allocator& session_allocator, const ExecutionOptions& how)
      : options(how),
        team(session_team),
        allocator(session_allocator),
        packs(session_allocator),
        results(std::make_shared<ResultBlocks>(session_allocator)) {}
  ~Environment() { results->Close(); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // At least `bytes` bytes for the plan that runs at nesting depth `depth` (0: the main graph).
  // Plans of one depth never run at once, so they share the memory; it is reused from run to run
  // and its contents do not survive.
  Result<std::byte*> Arena(int depth, size_t bytes);
  size_t arena_bytes() const;

  const ExecutionOptions options;
  Team& team;
  Allocator& allocator;
  PackStore packs;
  const std::shared_ptr<ResultBlocks> results;
  Observer* observer = nullptr;  // of the current run, may be null

 private:
  std::vector<Tensor> arenas_;  // by depth
};

}  // namespace parallax::runtime
