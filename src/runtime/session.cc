#include "runtime/session.h"

#include "passes/passes.h"

namespace parallax::runtime {

Session::Session(Model model, const SessionOptions& options)
    : model_(std::move(model)),
      team_(options.threads),
      environment_(team_, options.allocator != nullptr ? *options.allocator : SystemAllocator(),
                   options.execution),
      runner_(model_.graph, environment_, {}, 0) {}

Result<std::unique_ptr<Session>> Session::Create(Model model, const SessionOptions& options) {
  if (options.threads < 1 || options.threads > 1024) {
    return MakeError(ErrorCode::kInvalidArgument, "threads should be 1 to 1024, is {}",
                     options.threads);
  }
  if (options.execution.lower && !options.execution.precise) {
    PX_RETURN_IF_ERROR(passes::FoldAffine(&model.graph));
  }
  PX_RETURN_IF_ERROR(model.graph.Verify());
  std::unique_ptr<Session> session(new Session(std::move(model), options));
  if (session->team_.size() < options.threads) {
    return MakeError(ErrorCode::kOutOfMemory, "the system starts only {} of {} threads",
                     session->team_.size(), options.threads);
  }
  return session;
}

Result<void> Session::CheckInputs(std::span<const Tensor> inputs) const {
  const Graph& graph = model_.graph;
  if (inputs.size() != graph.inputs.size()) {
    return MakeError(ErrorCode::kInvalidArgument, "the model takes {} inputs, {} are given",
                     graph.inputs.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    if (!inputs[i].defined()) {
      if (value.constant.defined()) continue;
      return MakeError(ErrorCode::kInvalidArgument, "input '{}' ({}) is missing", value.name,
                       ToString(value.type, model_.symbols));
    }
    PX_RETURN_IF_ERROR(CheckInput(model_, i, inputs[i].dtype(), inputs[i].shape()));
  }
  return {};
}

Result<std::vector<Tensor>> Session::Run(std::span<const Tensor> inputs,
                                         const RunOptions& options) {
  PX_RETURN_IF_ERROR(CheckInputs(inputs));
  std::lock_guard lock(mutex_);
  environment_.observer = options.observer;
  Result<std::vector<Tensor>> outputs = runner_.Run(inputs, {});
  environment_.results->EndRun();
  environment_.observer = nullptr;
  return outputs;
}

Result<void> Session::Prepare(std::span<const Tensor> inputs) {
  PX_RETURN_IF_ERROR(CheckInputs(inputs));
  std::lock_guard lock(mutex_);
  Result<Program*> program = runner_.Prepare(inputs, {});
  if (!program.ok()) return program.error();
  return {};
}

MemoryUse Session::memory() const {
  std::lock_guard lock(mutex_);
  return {environment_.arena_bytes(), environment_.packs.bytes()};
}

}  // namespace parallax::runtime
