// Binding of kernels whose weights (input 1) are read in a packed form.
//
// Role:       Conv and ConvTranspose: constant weights are packed once for the session, others into
//             the workspace at every run.
// Threads:    used by one thread.
#pragma once

#include <memory>

#include <fmt/format.h>

#include "kernels/gemm/gemm.h"
#include "ops/core/bind_context.h"

namespace parallax::ops {

// `Plan` has name() and packed_weight_bytes. `pack(plan, weights, packed)` takes weights that may
// be misaligned; `run(plan, args, packed, workspace)` gets `scratch_bytes` of workspace.
template <class Plan, class Pack, class Run>
Result<std::unique_ptr<Kernel>> BindPackedWeights(BindContext& c, const Plan& plan, int64_t groups,
                                                  size_t scratch_bytes, Pack pack, Run run) {
  if (c.constant(1) == nullptr) {
    return MakeKernel(
        plan.name(),
        [=](const KernelArgs& a) {
          pack(plan, a.raw_in(1), a.workspace());
          run(plan, a, a.workspace(), a.workspace() + plan.packed_weight_bytes);
        },
        plan.packed_weight_bytes + scratch_bytes);
  }
  const std::string layout = fmt::format("{} g{} {} {}", plan.name(), groups,
                                         plan.packed_weight_bytes, kernels::SimdTargetName());
  PX_ASSIGN_OR_RETURN(
      std::shared_ptr<const void> packed,
      c.Pack(1, layout, plan.packed_weight_bytes,
             [&](const Tensor& source, void* out) { pack(plan, source.bytes_begin(), out); }));
  return MakeKernel(
      plan.name(), [=](const KernelArgs& a) { run(plan, a, packed.get(), a.workspace()); },
      scratch_bytes);
}

}  // namespace parallax::ops
