#include "ops/core/copy.h"

#include <cstring>

namespace parallax::ops {

Result<std::unique_ptr<Kernel>> BindView(BindContext& c) {
  const size_t bytes = static_cast<size_t>(c.output(0).elements()) * SizeOf(c.output_type(0));
  return MakeKernel("copy", [=](const KernelArgs& a) {
    if (bytes > 0 && a.raw_in(0) != a.raw_out(0)) std::memcpy(a.raw_out(0), a.raw_in(0), bytes);
  });
}

Result<std::unique_ptr<Kernel>> BindStridedCopy(BindContext& c, std::string name,
                                                const kernels::CopyPlan& plan) {
  const size_t size = SizeOf(c.output_type(0));
  return MakeKernel(std::move(name), [=](const KernelArgs& a) {
    kernels::StridedCopy(plan, size, a.raw_in(0), a.raw_out(0), a.team());
  });
}

Cost MoveCost(const CostContext&) { return {.op_class = OpClass::kMove}; }

}  // namespace parallax::ops
