// Binding of kernels whose weights are read in a packed form.
//
// Role:       Conv, its fused forms and ConvTranspose: constant weights are packed once for the session, others into
//             the workspace at every run.
// Threads:    used by one thread.
#pragma once

#include <memory>

#include <fmt/format.h>

#include "kernels/gemm/gemm.h"
#include "ops/core/bind_context.h"

namespace parallax::ops {

// Constant input `i`, packed for the plan once a session.
template <class Plan, class Pack>
Result<std::shared_ptr<const void>> PackConstant(BindContext& c, int i, const Plan& plan,
                                                 int64_t groups, Pack pack) {
  const std::string layout = fmt::format("{} g{} {} {}", plan.name(), groups,
                                         plan.packed_weight_bytes, kernels::SimdTargetName());
  return c.Pack(i, layout, plan.packed_weight_bytes,
                [&](const Tensor& source, void* out) { pack(plan, source.bytes_begin(), out); });
}

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
  PX_ASSIGN_OR_RETURN(std::shared_ptr<const void> packed, PackConstant(c, 1, plan, groups, pack));
  return MakeKernel(
      plan.name(), [=](const KernelArgs& a) { run(plan, a, packed.get(), a.workspace()); },
      scratch_bytes);
}

}  // namespace parallax::ops
