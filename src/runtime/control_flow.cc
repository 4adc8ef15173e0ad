#include "runtime/control_flow.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/graph_runner.h"

namespace parallax::runtime {
namespace {

struct Body {
  GraphRunner* runner = nullptr;
  const Graph* graph = nullptr;
  std::span<const Tensor> captures;
};

// The body of that attribute and its captures among the node's inputs.
Body FindBody(const Node& node, Step* step, std::string_view attribute,
              std::span<const Tensor> inputs) {
  size_t capture = static_cast<size_t>(node.explicit_inputs);
  for (size_t i = 0; i < node.subgraphs.size(); ++i) {
    const size_t count = node.subgraphs[i].graph->captures.size();
    if (node.subgraphs[i].attribute == attribute) {
      return {step->bodies[i].get(), node.subgraphs[i].graph.get(), inputs.subspan(capture, count)};
    }
    capture += count;
  }
  return {};
}

Result<bool> ReadCondition(const Tensor& t) {
  if (t.dtype() != DType::kBool || t.elements() != 1) {
    return MakeError(ErrorCode::kInvalidArgument, "the condition should be one bool, is {}{}",
                     Name(t.dtype()), t.shape().ToString());
  }
  return *t.data<bool>();
}

Result<std::vector<Tensor>> RunIf(const Node& node, Step* step, std::span<const Tensor> inputs) {
  PX_ASSIGN_OR_RETURN(bool condition, ReadCondition(inputs[0]));
  const Body body = FindBody(node, step, condition ? "then_branch" : "else_branch", inputs);
  return body.runner->Run({}, body.captures);
}

// Collects one scan output: the body's value of every iteration, stacked along a new first axis.
class ScanOutput {
 public:
  explicit ScanOutput(Allocator& allocator) : allocator_(allocator) {}

  Result<void> Append(const Tensor& t) {
    if (count_ == 0) {
      dtype_ = t.dtype();
      shape_ = t.shape();
    } else if (!(t.shape() == shape_)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "a scan output has shape {} in iteration {}, {} before",
                       t.shape().ToString(), count_, shape_.ToString());
    }
    if (t.bytes() > 0) bytes_.insert(bytes_.end(), t.bytes_begin(), t.bytes_begin() + t.bytes());
    ++count_;
    return {};
  }

  // `inferred` gives type and shape when there was no iteration; its first dim is the iterations'.
  Result<Tensor> Finish(const TensorType& inferred) const {
    Shape element = shape_;
    DType dtype = dtype_;
    if (count_ == 0) {
      dtype = inferred.dtype;
      element = Shape{};
      for (size_t i = 1; i < inferred.dims.size(); ++i) {
        element.Append(inferred.dims[i].known() ? inferred.dims[i].extent : 0);
      }
    }
    std::vector<int64_t> dims(element.dims().begin(), element.dims().end());
    dims.insert(dims.begin(), count_);
    PX_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    PX_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(dtype, shape, allocator_));
    if (!bytes_.empty()) std::memcpy(t.mutable_bytes(), bytes_.data(), bytes_.size());
    return t;
  }

 private:
  Allocator& allocator_;
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

Result<std::vector<Tensor>> RunLoop(const Node& node, Step* step, std::span<const Tensor> inputs,
                                    std::span<const TensorType> output_types, Environment& env) {
  const Body body = FindBody(node, step, "body", inputs);
  const int given = node.explicit_inputs;  // trailing inputs may be left out
  const size_t carried = static_cast<size_t>(std::max(given - 2, 0));
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (given > 0 && inputs[0].defined()) {
    if (inputs[0].elements() != 1) {
      return MakeError(ErrorCode::kInvalidArgument, "the trip count should be one int64, is {}",
                       inputs[0].shape().ToString());
    }
    trips = *inputs[0].data<int64_t>();
  }
  bool condition = true;
  if (given > 1 && inputs[1].defined()) {
    PX_ASSIGN_OR_RETURN(condition, ReadCondition(inputs[1]));
  }
  std::vector<Tensor> state(2 + carried);
  for (size_t i = 0; i < carried; ++i) state[2 + i] = inputs[2 + i];
  const size_t scans = body.graph->outputs.size() - 1 - carried;
  std::vector<ScanOutput> stacked(scans, ScanOutput(env.allocator));
  bool ran = false;
  for (int64_t i = 0; i < trips && condition; ++i) {
    ran = true;
    // Fresh tensors every time: a body may hand them on as outputs.
    PX_ASSIGN_OR_RETURN(state[0], Tensor::From<int64_t>(Shape{}, {&i, 1}));
    PX_ASSIGN_OR_RETURN(state[1], Tensor::From<bool>(Shape{}, {&condition, 1}));
    PX_ASSIGN_OR_RETURN(std::vector<Tensor> out, body.runner->Run(state, body.captures));
    PX_ASSIGN_OR_RETURN(condition, ReadCondition(out[0]));
    for (size_t k = 0; k < carried; ++k) state[2 + k] = std::move(out[1 + k]);
    for (size_t k = 0; k < scans; ++k) PX_RETURN_IF_ERROR(stacked[k].Append(out[1 + carried + k]));
  }
  std::vector<Tensor> result(state.begin() + 2, state.end());
  if (!ran) {  // the initial values belong to the enclosing graph
    for (Tensor& t : result) {
      PX_ASSIGN_OR_RETURN(t, t.Copy(env.allocator));
    }
  }
  for (size_t k = 0; k < scans; ++k) {
    const size_t o = carried + k;
    if (o >= node.outputs.size() || node.outputs[o] == kNoValue) continue;
    result.resize(o);
    PX_ASSIGN_OR_RETURN(Tensor t, stacked[k].Finish(output_types[o]));
    result.push_back(std::move(t));
  }
  result.resize(node.outputs.size());
  return result;
}

}  // namespace

Result<std::vector<Tensor>> RunControlFlowNode(const Graph& graph, Step* step,
                                               std::span<const Tensor> inputs,
                                               std::span<const TensorType> output_types,
                                               Environment& environment) {
  const Node& node = graph.node(step->node);
  if (node.op == "If") return RunIf(node, step, inputs);
  if (node.op == "Loop") return RunLoop(node, step, inputs, output_types, environment);
  return MakeError(ErrorCode::kInternal, "no control flow for {}", node.QualifiedOp());
}

}  // namespace parallax::runtime
