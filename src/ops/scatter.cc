// Scatter: the old name of ScatterElements, opset 9 and 10.
#include "ops/core/scatter_op.h"

namespace parallax::ops {

OpDef op_scatter() {
  OpDef def = ScatterElementsDef("Scatter");
  def.since = 9;
  def.until = 10;
  return def;
}

}  // namespace parallax::ops
