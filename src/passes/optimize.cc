#include "passes/passes.h"

namespace parallax::passes {

Result<void> Optimize(Model* model) {
  RemoveIdentities(&model->graph);
  PX_RETURN_IF_ERROR(FoldConstants(&model->graph));
  RemoveDeadCode(&model->graph);
  return model->graph.Verify();
}

}  // namespace parallax::passes
