#include "ops/core/bind_context.h"

namespace parallax::ops {

Result<std::unique_ptr<Kernel>> BindNode(const OpDef& def, BindContext& context) {
  PX_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, def.bind(context));
  if (def.data_dependent || kernel->can_fail()) return kernel;
  for (int i = 0; i < context.num_outputs(); ++i) {
    if (context.has_output(i) && context.output(i).elements() > 0) return kernel;
  }
  return MakeKernel(kernel->name(), [](const KernelArgs&) {});
}

}  // namespace parallax::ops
