// ScatterElements: a copy of the data with data[index[i][j]][j] op= updates[i][j] for axis 0,
// likewise for others. Without a reduction the last update of a place wins. Since opset 11;
// reductions since 16 (add, mul) and 18 (max, min).
#include "ops/core/scatter_op.h"

namespace parallax::ops {

OpDef op_scatter_elements() {
  OpDef def = ScatterElementsDef("ScatterElements");
  def.since = 11;
  return def;
}

}  // namespace parallax::ops
