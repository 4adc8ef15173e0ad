#include "runtime/program.h"

#include <algorithm>

#include "ops/core/table.h"
#include "passes/passes.h"
#include "plan/memory.h"
#include "runtime/graph_runner.h"

namespace parallax::runtime {

using ops::AliasKind;
using ops::TensorInfo;

Program::~Program() = default;

Result<std::unique_ptr<Program>> Program::Build(const Graph& graph, Environment& environment,
                                                std::span<const ops::InferInput> inputs,
                                                std::span<const ops::InferInput> captures,
                                                int depth) {
  PX_ASSIGN_OR_RETURN(ops::Inference inference, ops::InferGraph(graph, inputs, captures));
  std::unique_ptr<Graph> lowered;
  if (environment.options.lower) {
    lowered = std::make_unique<Graph>(graph.Clone());
    PX_RETURN_IF_ERROR(passes::Lower(lowered.get(), inference));
    PX_ASSIGN_OR_RETURN(inference, ops::InferGraph(*lowered, inputs, captures));
  }
  std::unique_ptr<Program> p(new Program(std::move(lowered), graph, environment, depth));
  p->inference_ = std::move(inference);
  p->values_.resize(p->graph_.values.size());
  p->constants_.resize(p->graph_.values.size());
  PX_RETURN_IF_ERROR(p->PlaceValues());
  PX_RETURN_IF_ERROR(p->BindSteps());
  PX_RETURN_IF_ERROR(p->PlanArena());
  return p;
}

ValueId Program::Root(ValueId v) const {
  while (values_[static_cast<size_t>(v)].place == Place::kView) {
    v = values_[static_cast<size_t>(v)].index;
  }
  return v;
}

Result<void> Program::PlaceValues() {
  for (size_t v = 0; v < values_.size(); ++v) {
    ValuePlan& plan = values_[v];
    plan.dtype = inference_.types[v].dtype;
    if (std::optional<Shape> shape = inference_.types[v].shape()) {
      plan.is_static = true;
      plan.shape = *shape;
    }
    if (inference_.constants[v].defined()) plan.place = Place::kConstant;
  }
  const auto place = [&](const std::vector<ValueId>& ids, Place where) {
    for (size_t i = 0; i < ids.size(); ++i) {
      ValuePlan& plan = values_[static_cast<size_t>(ids[i])];
      if (plan.place == Place::kNone)
        plan = {where, static_cast<int32_t>(i), 0, plan.is_static, plan.shape, plan.dtype};
    }
  };
  place(graph_.inputs, Place::kInput);
  place(graph_.captures, Place::kCapture);
  // Only steps whose results are not all known and that lead to an output have to run.
  std::vector<bool> needed(values_.size(), false);
  for (ValueId v : graph_.outputs) needed[static_cast<size_t>(v)] = true;
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    const Node& node = graph_.nodes[i];
    const bool runs = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      return v != kNoValue && needed[static_cast<size_t>(v)] &&
             values_[static_cast<size_t>(v)].place != Place::kConstant;
    });
    if (!runs) continue;
    for (ValueId v : node.inputs) {
      if (v != kNoValue) needed[static_cast<size_t>(v)] = true;
    }
    Step step;
    step.node = static_cast<NodeId>(i);
    step.def = ops::FindOp(node.domain, node.op, node.opset);
    step.open = inference_.open[i];
    for (int k = 0; k < node.explicit_inputs; ++k) {
      const ValueId v = node.inputs[static_cast<size_t>(k)];
      step.open = step.open || (v != kNoValue && !values_[static_cast<size_t>(v)].is_static);
    }
    steps_.push_back(std::move(step));
  }
  std::reverse(steps_.begin(), steps_.end());
  for (Step& step : steps_) {
    const Node& node = graph_.node(step.node);
    for (const ops::Alias& a : step.def->aliases) {
      step.view |= a.kind == AliasKind::kView && a.input == 0 && a.output == 0;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue) continue;
      ValuePlan& plan = values_[static_cast<size_t>(node.outputs[o])];
      if (step.view && o == 0) {
        plan.place = Place::kView;
        plan.index = Root(node.inputs[0]);  // placed before: chains of views stay short
      } else if (step.def->control_flow || step.def->data_dependent || !plan.is_static) {
        plan.place = Place::kHeap;
      } else {
        plan.place = Place::kArena;
      }
    }
  }
  // Graph outputs that a kernel makes are written straight into the output's memory.
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    ValuePlan& plan = values_[static_cast<size_t>(graph_.outputs[i])];
    if (plan.place == Place::kArena) {
      plan.place = Place::kOutput;
      plan.index = static_cast<int32_t>(i);
    }
  }
  return {};
}

Result<void> Program::BindSteps() {
  for (Step& step : steps_) {
    const Node& node = graph_.node(step.node);
    if (step.def->control_flow) {
      PX_RETURN_IF_ERROR(MakeBodies(&step));
    } else if (!step.view) {
      Result<void> bound = BindStep(&step);
      if (!bound.ok()) return bound.error().WithContext("node " + node.Describe(graph_));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const size_t v = static_cast<size_t>(Root(node.inputs[i]));
      const bool packed = i < 64 && (step.packed_inputs >> i & 1) != 0;
      if (values_[v].place != Place::kConstant || packed || constants_[v].defined()) continue;
      PX_ASSIGN_OR_RETURN(constants_[v], inference_.constants[v].Aligned(environment_.allocator));
      // A copy, for kernels that cannot read the file's bytes where they lie.
      if (!inference_.constants[v].aligned()) inference_.constants[v].DropPages();
    }
  }
  for (ValueId out : graph_.outputs) {
    const size_t v = static_cast<size_t>(Root(out));
    if (values_[v].place != Place::kConstant || constants_[v].defined()) continue;
    PX_ASSIGN_OR_RETURN(constants_[v], inference_.constants[v].Aligned(environment_.allocator));
  }
  return {};
}

// Binds when every shape is known and checked; otherwise the runner binds when they are.
Result<void> Program::BindStep(Step* step) {
  if (step->open) return {};
  const Node& node = graph_.node(step->node);
  step->inputs.resize(static_cast<size_t>(node.explicit_inputs));
  step->outputs.resize(node.outputs.size());
  for (size_t i = 0; i < step->inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const size_t v = static_cast<size_t>(node.inputs[i]);
    const Tensor& constant = inference_.constants[v];
    step->inputs[i] = {values_[v].dtype, values_[v].shape,
                       constant.defined() ? &constant : nullptr};
  }
  for (size_t i = 0; i < step->outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const size_t v = static_cast<size_t>(node.outputs[i]);
    step->outputs[i].dtype = values_[v].dtype;
    if (step->def->data_dependent) continue;
    if (!values_[v].is_static) return {};
    step->outputs[i].shape = values_[v].shape;
  }
  ops::BindContext context(node, step->inputs, step->outputs, environment_.team.size(),
                           &environment_.packs, environment_.options.precise);
  PX_ASSIGN_OR_RETURN(step->kernel, ops::BindNode(*step->def, context));
  step->workspace_bytes = step->kernel->workspace_bytes();
  for (int i = 0; i < node.explicit_inputs && i < 64; ++i) {
    if (context.packed(i)) step->packed_inputs |= uint64_t{1} << i;
  }
  return {};
}

Result<void> Program::MakeBodies(Step* step) {
  const Node& node = graph_.node(step->node);
  size_t capture = static_cast<size_t>(node.explicit_inputs);
  for (const Subgraph& s : node.subgraphs) {
    std::vector<Tensor> constants;
    for (size_t i = 0; i < s.graph->captures.size(); ++i, ++capture) {
      constants.push_back(inference_.constants[static_cast<size_t>(node.inputs[capture])]);
    }
    step->bodies.push_back(
        std::make_unique<GraphRunner>(*s.graph, environment_, std::move(constants), depth_ + 1));
  }
  return {};
}

// Liveness over steps, in-place reuse, and offsets. Position i is steps_[i].
Result<void> Program::PlanArena() {
  const int32_t count = static_cast<int32_t>(steps_.size());
  std::vector<int32_t> first(values_.size(), -1), last(values_.size(), -1);
  for (int32_t i = 0; i < count; ++i) {
    const Node& node = graph_.node(steps_[static_cast<size_t>(i)].node);
    for (ValueId v : node.inputs) {
      if (v != kNoValue) last[static_cast<size_t>(Root(v))] = i;
    }
    for (ValueId v : node.outputs) {
      if (v == kNoValue) continue;
      const size_t root = static_cast<size_t>(Root(v));
      if (first[root] < 0) first[root] = i;
      last[root] = std::max(last[root], i);  // an output nobody reads lives while it is made
    }
  }
  for (ValueId v : graph_.outputs) last[static_cast<size_t>(Root(v))] = count;

  // A kernel may write over an input that nobody else reads afterwards: the output then continues
  // the input's buffer.
  std::vector<ValueId> reuse(values_.size(), kNoValue);
  const auto buffer_of = [&](ValueId v) {
    v = Root(v);
    while (reuse[static_cast<size_t>(v)] != kNoValue) v = reuse[static_cast<size_t>(v)];
    return v;
  };
  for (int32_t i = 0; i < count; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    const Node& node = graph_.node(step.node);
    if (step.kernel == nullptr) continue;
    for (const ops::Alias& a : step.def->aliases) {
      if (a.kind != AliasKind::kInPlace || a.input >= node.explicit_inputs ||
          static_cast<size_t>(a.output) >= node.outputs.size()) {
        continue;
      }
      const ValueId in = node.inputs[static_cast<size_t>(a.input)];
      const ValueId out = node.outputs[static_cast<size_t>(a.output)];
      if (in == kNoValue || out == kNoValue) continue;
      const ValuePlan& from = values_[static_cast<size_t>(in)];
      const ValuePlan& to = values_[static_cast<size_t>(out)];
      const ValueId buffer = buffer_of(in);
      const bool fits =
          to.place == Place::kArena && from.shape == to.shape &&
          SizeOf(from.dtype) == SizeOf(to.dtype) && reuse[static_cast<size_t>(out)] == kNoValue &&
          values_[static_cast<size_t>(buffer)].place == Place::kArena &&
          last[static_cast<size_t>(Root(in))] == i && last[static_cast<size_t>(buffer)] <= i;
      // Another input that sees the same buffer under another shape would be overwritten early.
      bool alone = true;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (v == kNoValue || static_cast<int>(k) == a.input || (v == in && !a.exclusive)) continue;
        alone &= buffer_of(v) != buffer;
      }
      if (!fits || !alone) continue;
      reuse[static_cast<size_t>(out)] = buffer;
      last[static_cast<size_t>(buffer)] = last[static_cast<size_t>(out)];
      break;
    }
  }

  std::vector<plan::BufferRequest> requests;
  std::vector<ValueId> owner;
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].place != Place::kArena || reuse[v] != kNoValue) continue;
    requests.push_back(
        {values_[v].shape.elements() * static_cast<int64_t>(SizeOf(values_[v].dtype)), first[v],
         last[v]});
    owner.push_back(static_cast<ValueId>(v));
  }
  const size_t buffers = requests.size();
  for (int32_t i = 0; i < count; ++i) {
    requests.push_back(
        {static_cast<int64_t>(steps_[static_cast<size_t>(i)].workspace_bytes), i, i});
  }
  const plan::MemoryPlan plan = plan::PlanSequential(requests);
  arena_bytes_ = plan.arena_bytes;
  for (size_t i = 0; i < buffers; ++i) {
    values_[static_cast<size_t>(owner[i])].offset = plan.offsets[i];
  }
  for (size_t v = 0; v < values_.size(); ++v) {
    if (reuse[v] == kNoValue) continue;
    values_[v].offset = values_[static_cast<size_t>(buffer_of(static_cast<ValueId>(v)))].offset;
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].workspace_offset = plan.offsets[buffers + i];
  }
  // A heap value goes when the last reader of its root, through whatever view, has run.
  for (size_t v = 0; v < values_.size(); ++v) {
    const size_t root = static_cast<size_t>(Root(static_cast<ValueId>(v)));
    if (values_[root].place == Place::kHeap && last[root] >= 0 && last[root] < count) {
      steps_[static_cast<size_t>(last[root])].release.push_back(static_cast<ValueId>(v));
    }
  }
  return {};
}

}  // namespace parallax::runtime
