// Program: a graph bound to concrete input shapes: kernels chosen, bytes placed.
//
// Role:       built once per set of input shapes, run by GraphRunner.
// Ownership:  borrows the graph and the environment; owns kernels, folded constants and the runners
//             of control-flow bodies.
// Threads:    immutable after Build, but for the state of its bodies; used under the session's
//             lock.
// Cost:       Build: one inference, O(V + E), and the packing of constants not packed before.
// Invariants: a value's place says where its bytes are during a run; arena places of values that
//             are alive at once do not overlap; views share the place of their root.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/core/inference.h"
#include "ops/core/kernel.h"
#include "ops/core/op_def.h"
#include "runtime/environment.h"

namespace parallax::runtime {

class GraphRunner;

enum class Place : uint8_t {
  kNone,      // folded away, or nobody reads it and nothing writes it
  kConstant,  // known before running
  kInput,     // the caller's input `index`
  kCapture,   // the enclosing graph's value `index`
  kArena,     // `offset` in the program's arena
  kOutput,    // the memory of graph output `index`
  kHeap,      // allocated while running: its size is not known before, or a body made it
  kView,      // the bytes of value `index`, itself no view, under another shape
};

struct ValuePlan {
  Place place = Place::kNone;
  int32_t index = 0;
  int64_t offset = 0;
  bool is_static = false;  // `shape` is known
  Shape shape;
  DType dtype = DType::kUndefined;
};

struct Step {
  NodeId node = kNoNode;
  const ops::OpDef* def = nullptr;
  std::unique_ptr<ops::Kernel> kernel;  // null: bound while running, a view, or control flow
  bool view = false;                    // output 0 is a kView of input 0
  bool open = false;  // its inputs' shapes, or values it is steered by, come with the run
  size_t workspace_bytes = 0;
  int64_t workspace_offset = 0;                      // in the arena
  std::vector<std::unique_ptr<GraphRunner>> bodies;  // of control flow, as node.subgraphs
  std::vector<ValueId> release;                      // kHeap values nobody reads afterwards
  std::vector<ops::TensorInfo> inputs, outputs;      // of a bound kernel
  uint64_t packed_inputs = 0;                        // bit i: the kernel holds input i packed
};

class Program {
 public:
  // `inputs` and `captures` go with the graph's; each must have a static shape. An input with a
  // constant is fixed for every run of this program.
  static Result<std::unique_ptr<Program>> Build(const Graph& graph, Environment& environment,
                                                std::span<const ops::InferInput> inputs,
                                                std::span<const ops::InferInput> captures,
                                                int depth);
  ~Program();

  // The graph that is executed: the model's, or what it was lowered to. Inputs, captures and outputs
  // stand in the same order; nodes and values are other ones.
  const Graph& graph() const { return graph_; }
  const ops::Inference& inference() const { return inference_; }
  const std::vector<ValuePlan>& values() const { return values_; }
  std::vector<Step>& steps() { return steps_; }
  const std::vector<Step>& steps() const { return steps_; }
  // The constant of a kConstant value, aligned.
  const Tensor& constant(ValueId v) const { return constants_[static_cast<size_t>(v)]; }
  size_t arena_bytes() const { return static_cast<size_t>(arena_bytes_); }
  int depth() const { return depth_; }

 private:
  Program(std::unique_ptr<Graph> lowered, const Graph& graph, Environment& environment, int depth)
      : lowered_(std::move(lowered)),
        graph_(lowered_ != nullptr ? *lowered_ : graph),
        environment_(environment),
        depth_(depth) {}
  Result<void> PlaceValues();
  Result<void> BindSteps();
  Result<void> BindStep(Step* step);
  Result<void> MakeBodies(Step* step);
  Result<void> PlanArena();
  ValueId Root(ValueId v) const;

  const std::unique_ptr<const Graph> lowered_;
  const Graph& graph_;
  Environment& environment_;
  const int depth_;
  ops::Inference inference_;
  std::vector<ValuePlan> values_;
  std::vector<Tensor> constants_;
  std::vector<Step> steps_;
  int64_t arena_bytes_ = 0;
};

}  // namespace parallax::runtime
