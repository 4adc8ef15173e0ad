#include "ops/core/evaluate.h"

#include "ops/core/bind_context.h"
#include "ops/core/inference.h"
#include "ops/core/table.h"

namespace parallax::ops {
namespace {

// Packs for one evaluation only.
class LocalPacks final : public PackCache {
 public:
  explicit LocalPacks(Allocator& allocator) : allocator_(allocator) {}
  Result<std::shared_ptr<const void>> Get(
      const Tensor& source, std::string_view, size_t bytes,
      const std::function<void(const Tensor&, void*)>& pack) override {
    PX_ASSIGN_OR_RETURN(
        Tensor t, Tensor::Allocate(DType::kU8, Shape{static_cast<int64_t>(bytes)}, allocator_));
    pack(source, t.mutable_bytes());
    return t.owner();
  }

 private:
  Allocator& allocator_;
};

class TensorOutputs final : public OutputAllocator {
 public:
  TensorOutputs(std::vector<Tensor>* tensors, std::span<const TensorType> types, Allocator& a)
      : tensors_(tensors), types_(types), allocator_(a) {}
  Result<void*> Allocate(int output, const Shape& shape) override {
    const size_t i = static_cast<size_t>(output);
    PX_ASSIGN_OR_RETURN((*tensors_)[i], Tensor::Allocate(types_[i].dtype, shape, allocator_));
    return static_cast<void*>((*tensors_)[i].mutable_bytes());
  }

 private:
  std::vector<Tensor>* tensors_;
  std::span<const TensorType> types_;
  Allocator& allocator_;
};

Result<std::vector<Tensor>> EvaluateWith(const OpDef& def, const Node& node,
                                         std::span<const Tensor* const> given,
                                         std::span<const TensorType> types, Team& team,
                                         const EvaluateOptions& options) {
  Allocator& allocator = *options.allocator;
  // Kernels read typed memory; a mapped constant may start at any byte.
  std::vector<Tensor> inputs(given.size());
  std::vector<TensorInfo> input_info(given.size()), output_info(types.size());
  std::vector<const void*> input_pointers(given.size(), nullptr);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == nullptr) continue;
    PX_ASSIGN_OR_RETURN(inputs[i], given[i]->Aligned(allocator));
    const bool constant = i < 64 && (options.constant_inputs >> i & 1) != 0;
    input_info[i] = {inputs[i].dtype(), inputs[i].shape(), constant ? &inputs[i] : nullptr};
    input_pointers[i] = inputs[i].bytes_begin();
  }
  std::vector<Tensor> outputs(types.size());
  std::vector<void*> output_pointers(types.size(), nullptr);
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    output_info[i].dtype = types[i].dtype;
    if (def.data_dependent) continue;
    std::optional<Shape> shape = types[i].shape();
    if (!shape) {
      return MakeError(ErrorCode::kInternal, "the shape of output {} is not known", i);
    }
    output_info[i].shape = *shape;
    PX_ASSIGN_OR_RETURN(outputs[i], Tensor::Allocate(types[i].dtype, *shape, allocator));
    output_pointers[i] = outputs[i].mutable_bytes();
  }
  LocalPacks packs(allocator);
  BindContext context(node, input_info, output_info, team.size(),
                      options.packs != nullptr ? options.packs : &packs, options.precise);
  PX_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, BindNode(def, context));
  for (size_t i = 0; i < given.size(); ++i) {
    if (context.packed(static_cast<int>(i))) input_pointers[i] = nullptr;
  }
  PX_ASSIGN_OR_RETURN(
      Tensor workspace,
      Tensor::Allocate(DType::kU8, Shape{static_cast<int64_t>(kernel->workspace_bytes())},
                       allocator));
  TensorOutputs allocate(&outputs, types, allocator);
  PX_RETURN_IF_ERROR(kernel->Run(
      KernelArgs(input_pointers, output_pointers, workspace.mutable_bytes(), team, &allocate)));
  return outputs;
}

}  // namespace

Result<std::vector<Tensor>> Evaluate(const Graph& graph, const Node& node,
                                     std::span<const Tensor* const> inputs, Team& team,
                                     const EvaluateOptions& options) {
  std::vector<TensorType> types(inputs.size());
  std::vector<InferContext::Input> infer(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    types[i] = TensorType::Of(inputs[i]->dtype(), inputs[i]->shape());
    infer[i] = {&types[i], inputs[i], nullptr};
  }
  PX_ASSIGN_OR_RETURN(NodeInference inference, InferNode(graph, node, infer));
  const OpDef* def = FindOp(node.domain, node.op, node.opset);
  Result<std::vector<Tensor>> result =
      EvaluateWith(*def, node, inputs, inference.outputs, team, options);
  if (!result.ok()) return result.error().WithContext("node " + node.Describe(graph));
  return result;
}

}  // namespace parallax::ops
