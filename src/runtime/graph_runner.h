// GraphRunner: runs one graph, main or body, at whatever input shapes come.
//
// Role:       the executor of a session; control-flow steps own one for each of their bodies.
// Ownership:  borrows graph and environment; owns the programs it has built.
// Threads:    used under the session's lock.
// Cost:       a run at known shapes allocates nothing but its outputs and data-dependent values.
// Invariants: the memory of inputs and captures is never written; outputs are fresh memory.
#pragma once

#include <list>
#include <memory>
#include <span>
#include <vector>

#include "runtime/program.h"

namespace parallax::runtime {

class GraphRunner {
 public:
  // `capture_constants` go with graph.captures: those that are defined hold for every run.
  GraphRunner(const Graph& graph, Environment& environment, std::vector<Tensor> capture_constants,
              int depth)
      : graph_(graph),
        environment_(environment),
        capture_constants_(std::move(capture_constants)),
        depth_(depth) {}

  // `inputs` go with graph.inputs; an undefined one takes the input's default. Element types and
  // ranks must fit the graph (the session checks its caller's, control flow its own).
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs, std::span<const Tensor> captures);

  // The program for these inputs, built if new.
  Result<Program*> Prepare(std::span<const Tensor> inputs, std::span<const Tensor> captures);

 private:
  // What the runner knows of a value while a program runs.
  struct Slot {
    const void* data = nullptr;
    Shape shape;
    Tensor holder;  // kHeap: keeps the bytes alive
  };
  struct Key {
    std::vector<Shape> shapes;  // of inputs, then captures
    std::vector<bool> fed;      // inputs that do not take their default
  };

  const Shape& ShapeOfInput(size_t i, std::span<const Tensor> inputs) const;
  bool Matches(const Key& key, std::span<const Tensor> inputs,
               std::span<const Tensor> captures) const;

  Result<std::vector<Tensor>> Execute(Program* program, std::span<const Tensor> inputs,
                                      std::span<const Tensor> captures);
  Result<void> RunStep(Program* program, Step* step, std::byte* arena);
  Result<void> RunView(const Program& program, const Step& step);
  Result<void> RunKernel(const Program& program, const Step& step, std::byte* arena);
  Result<void> RunUnbound(const Program& program, const Step& step);
  Result<void> RunControlFlow(const Program& program, Step* step);
  // The value as a tensor that borrows the slot's bytes, or shares them when they are on the heap.
  Tensor TensorOf(const Program& program, ValueId v) const;
  // Fails when the plan, and with it bound kernels, counts on another shape.
  Result<void> SetHeap(const Program& program, ValueId v, Tensor tensor);
  Slot& slot(ValueId v) { return slots_[static_cast<size_t>(v)]; }
  const Slot& slot(ValueId v) const { return slots_[static_cast<size_t>(v)]; }

  const Graph& graph_;
  Environment& environment_;
  const std::vector<Tensor> capture_constants_;
  const int depth_;
  std::list<std::pair<Key, std::unique_ptr<Program>>> programs_;  // most recently used first
  std::vector<Slot> slots_;                                       // by value, of the current run
  std::vector<const void*> in_pointers_;
  std::vector<void*> out_pointers_;
};

}  // namespace parallax::runtime
