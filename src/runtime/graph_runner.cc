#include "runtime/graph_runner.h"

#include <chrono>
#include <cstring>

#include "ops/core/evaluate.h"
#include "runtime/control_flow.h"

namespace parallax::runtime {
namespace {

// Programs kept per graph: one for each set of input shapes lately seen.
constexpr size_t kMaxPrograms = 8;

double NowMicroseconds() {
  using std::chrono::duration;
  return duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Memory for data-dependent outputs.
class HeapOutputs final : public ops::OutputAllocator {
 public:
  HeapOutputs(const Node& node, const std::vector<ValuePlan>& plans, Allocator& allocator)
      : node_(node), plans_(plans), allocator_(allocator), tensors(node.outputs.size()) {}
  Result<void*> Allocate(int output, const Shape& shape) override {
    const size_t i = static_cast<size_t>(output);
    const DType dtype = plans_[static_cast<size_t>(node_.outputs[i])].dtype;
    PX_ASSIGN_OR_RETURN(tensors[i], Tensor::Allocate(dtype, shape, allocator_));
    return static_cast<void*>(tensors[i].mutable_bytes());
  }

 private:
  const Node& node_;
  const std::vector<ValuePlan>& plans_;
  Allocator& allocator_;

 public:
  std::vector<Tensor> tensors;
};

// Bound kernels and the arena are sized by the plan: what arrives must be what it says. Inference
// promises that; a broken promise must not become a write out of bounds.
Result<void> CheckPlanned(const ValuePlan& plan, const Tensor& tensor) {
  if (tensor.dtype() == plan.dtype && (!plan.is_static || tensor.shape() == plan.shape)) return {};
  return MakeError(ErrorCode::kInternal, "a value is {}{}, planned as {}{}", Name(tensor.dtype()),
                   tensor.shape().ToString(), Name(plan.dtype),
                   plan.is_static ? plan.shape.ToString() : "[...]");
}

}  // namespace

const Shape& GraphRunner::ShapeOfInput(size_t i, std::span<const Tensor> inputs) const {
  return inputs[i].defined() ? inputs[i].shape() : graph_.value(graph_.inputs[i]).constant.shape();
}

bool GraphRunner::Matches(const Key& key, std::span<const Tensor> inputs,
                          std::span<const Tensor> captures) const {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    if (key.fed[i] != inputs[i].defined() || !(key.shapes[i] == ShapeOfInput(i, inputs))) {
      return false;
    }
  }
  for (size_t i = 0; i < captures.size(); ++i) {
    if (!(key.shapes[graph_.inputs.size() + i] == captures[i].shape())) return false;
  }
  return true;
}

Result<Program*> GraphRunner::Prepare(std::span<const Tensor> inputs,
                                      std::span<const Tensor> captures) {
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    if (!Matches(it->first, inputs, captures)) continue;
    programs_.splice(programs_.begin(), programs_, it);
    return programs_.front().second.get();
  }
  Key key;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    key.fed.push_back(inputs[i].defined());
    key.shapes.push_back(ShapeOfInput(i, inputs));
  }
  for (const Tensor& t : captures) key.shapes.push_back(t.shape());
  std::vector<ops::InferInput> input_types, capture_types;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const Value& value = graph_.value(graph_.inputs[i]);
    const Tensor& t = key.fed[i] ? inputs[i] : value.constant;
    input_types.push_back(
        {TensorType::Of(t.dtype(), t.shape()), key.fed[i] ? nullptr : &value.constant, nullptr});
  }
  for (size_t i = 0; i < captures.size(); ++i) {
    const Tensor& constant = capture_constants_[i];
    capture_types.push_back({TensorType::Of(captures[i].dtype(), captures[i].shape()),
                             constant.defined() ? &constant : nullptr, nullptr});
  }
  PX_ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                      Program::Build(graph_, environment_, input_types, capture_types, depth_));
  programs_.emplace_front(std::move(key), std::move(program));
  if (programs_.size() > kMaxPrograms) programs_.pop_back();
  return programs_.front().second.get();
}

Result<std::vector<Tensor>> GraphRunner::Run(std::span<const Tensor> inputs,
                                             std::span<const Tensor> captures) {
  PX_ASSIGN_OR_RETURN(Program * program, Prepare(inputs, captures));
  Result<std::vector<Tensor>> outputs = Execute(program, inputs, captures);
  for (Slot& s : slots_) s.holder = Tensor();
  return outputs;
}

Result<std::vector<Tensor>> GraphRunner::Execute(Program* program, std::span<const Tensor> inputs,
                                                 std::span<const Tensor> captures) {
  PX_ASSIGN_OR_RETURN(std::byte * arena, environment_.Arena(depth_, program->arena_bytes()));
  std::vector<Tensor> outputs(program->graph().outputs.size());
  slots_.resize(program->graph().values.size());
  for (size_t v = 0; v < slots_.size(); ++v) {
    const ValuePlan& plan = program->values()[v];
    Slot& s = slots_[v];
    s.shape = plan.shape;
    s.data = nullptr;
    const size_t index = static_cast<size_t>(plan.index);
    switch (plan.place) {
      case Place::kConstant: {
        const Tensor& c = program->constant(static_cast<ValueId>(v));
        s.data = c.defined() ? c.bytes_begin() : nullptr;
        break;
      }
      case Place::kInput:
        s.data = inputs[index].bytes_begin();
        break;
      case Place::kCapture:
        s.data = captures[index].bytes_begin();
        break;
      case Place::kArena:
        s.data = arena + plan.offset;
        break;
      case Place::kOutput: {
        PX_ASSIGN_OR_RETURN(outputs[index], environment_.results->Make(plan.dtype, plan.shape));
        s.data = outputs[index].bytes_begin();
        break;
      }
      case Place::kHeap:
      case Place::kView:
      case Place::kNone:
        break;
    }
  }
  for (Step& step : program->steps()) {
    PX_RETURN_IF_ERROR(RunStep(program, &step, arena));
    for (ValueId v : step.release) slot(v).holder = Tensor();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined()) continue;
    const ValueId v = program->graph().outputs[i];
    const Tensor t = TensorOf(*program, v);
    if (slot(v).holder.use_count() > 0) {
      outputs[i] = slot(v).holder.WithShape(slot(v).shape);  // made on the heap by this run
    } else {
      PX_ASSIGN_OR_RETURN(outputs[i], t.Copy(environment_.allocator));
    }
  }
  return outputs;
}

Tensor GraphRunner::TensorOf(const Program& program, ValueId v) const {
  const Slot& s = slot(v);
  if (s.holder.defined()) return s.holder.WithShape(s.shape);
  if (const Tensor& c = program.constant(v); c.defined()) return c;
  return Tensor::Wrap(program.values()[static_cast<size_t>(v)].dtype, s.shape, s.data);
}

Result<void> GraphRunner::SetHeap(const Program& program, ValueId v, Tensor tensor) {
  PX_RETURN_IF_ERROR(CheckPlanned(program.values()[static_cast<size_t>(v)], tensor));
  Slot& s = slot(v);
  s.shape = tensor.shape();
  s.data = tensor.bytes_begin();
  s.holder = std::move(tensor);
  return {};
}

Result<void> GraphRunner::RunStep(Program* program, Step* step, std::byte* arena) {
  Observer* observer = environment_.observer;
  const double start = observer == nullptr ? 0 : NowMicroseconds();
  const Node& node = program->graph().node(step->node);
  // What infers shapes names the node in its errors; kernels and bodies do not know it.
  Result<void> unnamed;
  if (step->view) {
    PX_RETURN_IF_ERROR(RunView(*program, *step));
  } else if (step->def->control_flow) {
    unnamed = RunControlFlow(*program, step);
  } else if (step->kernel != nullptr) {
    unnamed = RunKernel(*program, *step, arena);
  } else {
    PX_RETURN_IF_ERROR(RunUnbound(*program, *step));
  }
  if (!unnamed.ok()) return unnamed.error().WithContext("node " + node.Describe(program->graph()));
  if (observer != nullptr) {
    observer->OnNode({program->graph(), node,
                      step->kernel != nullptr ? std::string_view(step->kernel->name())
                      : step->view            ? std::string_view("view")
                                              : std::string_view(),
                      start, NowMicroseconds(), step->inputs, step->outputs});
  }
  return {};
}

// The shape of a view, and whether it has one, may depend on values that only now are known.
Result<void> GraphRunner::RunView(const Program& program, const Step& step) {
  const Node& node = program.graph().node(step.node);
  const Slot& in = slot(node.inputs[0]);
  const ValueId out = node.outputs[0];
  Shape shape = program.values()[static_cast<size_t>(out)].shape;
  if (step.open) {
    std::vector<TensorType> types(node.inputs.size());
    std::vector<Tensor> tensors(node.inputs.size());
    std::vector<ops::InferContext::Input> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      tensors[i] = TensorOf(program, node.inputs[i]);
      types[i] = TensorType::Of(tensors[i].dtype(), tensors[i].shape());
      inputs[i] = {&types[i], i == 0 ? nullptr : &tensors[i], nullptr};
    }
    PX_ASSIGN_OR_RETURN(ops::NodeInference inference,
                        ops::InferNode(program.graph(), node, inputs));
    std::optional<Shape> known = inference.outputs[0].shape();
    if (!known || known->elements() != in.shape.elements()) {
      return MakeError(ErrorCode::kInternal, "the shape of a view of {} is not known",
                       in.shape.ToString());
    }
    shape = *known;
  }
  Slot& s = slot(out);
  s.shape = shape;
  s.data = in.data;
  s.holder = in.holder;
  return {};
}

Result<void> GraphRunner::RunKernel(const Program& program, const Step& step, std::byte* arena) {
  const Node& node = program.graph().node(step.node);
  in_pointers_.assign(static_cast<size_t>(node.explicit_inputs), nullptr);
  out_pointers_.assign(node.outputs.size(), nullptr);
  for (size_t i = 0; i < in_pointers_.size(); ++i) {
    if (node.inputs[i] == kNoValue || (i < 64 && (step.packed_inputs >> i & 1) != 0)) continue;
    in_pointers_[i] = slot(node.inputs[i]).data;
  }
  for (size_t i = 0; i < out_pointers_.size(); ++i) {
    if (node.outputs[i] != kNoValue) {
      out_pointers_[i] = const_cast<void*>(slot(node.outputs[i]).data);
    }
  }
  std::byte* workspace = arena + step.workspace_offset;
  if (!step.def->data_dependent) {
    return step.kernel->Run(
        ops::KernelArgs(in_pointers_, out_pointers_, workspace, environment_.team));
  }
  HeapOutputs heap(node, program.values(), environment_.allocator);
  PX_RETURN_IF_ERROR(step.kernel->Run(
      ops::KernelArgs(in_pointers_, out_pointers_, workspace, environment_.team, &heap)));
  for (size_t i = 0; i < heap.tensors.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    PX_RETURN_IF_ERROR(SetHeap(program, node.outputs[i], std::move(heap.tensors[i])));
  }
  return {};
}

// Shapes were not known when the program was built: infer, bind and run with what is there now.
Result<void> GraphRunner::RunUnbound(const Program& program, const Step& step) {
  const Node& node = program.graph().node(step.node);
  std::vector<Tensor> tensors(node.inputs.size());
  std::vector<const Tensor*> inputs(node.inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    tensors[i] = TensorOf(program, node.inputs[i]);
    inputs[i] = &tensors[i];
  }
  ops::EvaluateOptions options;
  options.allocator = &environment_.allocator;
  options.packs = &environment_.packs;
  options.precise = environment_.options.precise;
  options.constant_inputs = 0;
  for (size_t i = 0; i < inputs.size() && i < 64; ++i) {
    if (inputs[i] == nullptr) continue;
    const ValuePlan& plan = program.values()[static_cast<size_t>(node.inputs[i])];
    if (plan.place == Place::kConstant) options.constant_inputs |= uint64_t{1} << i;
  }
  PX_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                      ops::Evaluate(program.graph(), node, inputs, environment_.team, options));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const ValuePlan& plan = program.values()[static_cast<size_t>(node.outputs[i])];
    if (plan.place == Place::kHeap) {
      PX_RETURN_IF_ERROR(SetHeap(program, node.outputs[i], std::move(outputs[i])));
      continue;
    }
    PX_RETURN_IF_ERROR(CheckPlanned(plan, outputs[i]));
    if (outputs[i].bytes() > 0) {
      std::memcpy(const_cast<void*>(slot(node.outputs[i]).data), outputs[i].bytes_begin(),
                  outputs[i].bytes());
    }
  }
  return {};
}

Result<void> GraphRunner::RunControlFlow(const Program& program, Step* step) {
  const Node& node = program.graph().node(step->node);
  std::vector<Tensor> inputs(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] != kNoValue) inputs[i] = TensorOf(program, node.inputs[i]);
  }
  std::vector<TensorType> types(node.outputs.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    types[i] = program.inference().types[static_cast<size_t>(node.outputs[i])];
  }
  PX_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                      RunControlFlowNode(program.graph(), step, inputs, types, environment_));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    PX_RETURN_IF_ERROR(SetHeap(program, node.outputs[i], std::move(outputs[i])));
  }
  return {};
}

}  // namespace parallax::runtime
