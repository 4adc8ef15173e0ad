// Session: a model ready to run.
//
// Role:       the runtime's face to the api room and the command line.
// Ownership:  owns the model, its packed weights, its plans and its threads.
// Threads:    Run may be called from any thread; calls of one session take turns.
// Cost:       Create runs the graph passes. The first run at new input shapes plans and packs;
//             later runs at those shapes allocate only their outputs.
// Invariants: results are the same bits for every thread count.
// Example:
//   PX_ASSIGN_OR_RETURN(auto session, Session::Create(std::move(model), {}));
//   PX_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, session->Run(inputs));
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "runtime/environment.h"
#include "runtime/graph_runner.h"
#include "runtime/observer.h"

namespace parallax::runtime {

struct SessionOptions {
  int threads = 1;
  Allocator* allocator = nullptr;  // null: the process heap; must outlive the session
  ExecutionOptions execution = {};
};

struct RunOptions {
  Observer* observer = nullptr;
};

struct MemoryUse {
  size_t activations = 0;  // arenas: values and workspace
  size_t weights = 0;      // constants as kernels use them, packed forms included
};

class Session {
 public:
  // REQUIRES: the model has been verified (import does) and every operator is supported.
  static Result<std::unique_ptr<Session>> Create(Model model, const SessionOptions& options);

  const Model& model() const { return model_; }
  int threads() const { return team_.size(); }

  // `inputs` go with the graph's inputs; an undefined tensor takes the input's default. Errors:
  // kInvalidArgument with wanted and found where type, rank or extents do not fit; what a kernel
  // reports while running, with its node.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs, const RunOptions& options = {});
  // Plans for these inputs' shapes without running.
  Result<void> Prepare(std::span<const Tensor> inputs);
  MemoryUse memory() const;

 private:
  Session(Model model, const SessionOptions& options);
  Result<void> CheckInputs(std::span<const Tensor> inputs) const;

  const Model model_;
  Team team_;
  Environment environment_;
  GraphRunner runner_;
  mutable std::mutex mutex_;
};

}  // namespace parallax::runtime
