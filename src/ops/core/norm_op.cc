#include "ops/core/norm_op.h"

#include "ops/core/dims.h"

namespace parallax::ops {

Result<void> CheckTrailingParam(const InferContext& c, int i, int axis) {
  if (!c.has_input(i) || c.rank(i) < 0) return {};
  const Dims& x = c.dims(0);
  const Dims& p = c.dims(i);
  const size_t wanted = x.size() - static_cast<size_t>(axis);
  bool fits = p.size() >= wanted;
  for (size_t d = 0; fits && d < p.size(); ++d) {  // from the right
    const Dim& dim = p[p.size() - 1 - d];
    const Dim want = d < wanted ? x[x.size() - 1 - d] : Dim(1);
    fits = !dim.known() || !want.known() || dim.extent == want.extent;
  }
  if (!fits) {
    return Invalid("input {} has shape {}, should be the extents from axis {} of {}", i,
                   DimsToString(p), axis, DimsToString(x));
  }
  return {};
}

Result<void> CheckChannelParam(const InferContext& c, int i) {
  if (c.rank(i) < 0 || c.rank(0) < 0) return {};
  if (c.rank(0) < 2) return Invalid("the input should have rank 2 or more, has {}", c.rank(0));
  const Dim& channels = c.dims(0)[1];
  const bool fits = c.rank(i) == 1 && (!channels.known() || !c.dims(i)[0].known() ||
                                       channels.extent == c.dims(i)[0].extent);
  if (!fits) {
    return Invalid("input {} has shape {}, should be one value a channel of {}", i,
                   DimsToString(c.dims(i)), DimsToString(c.dims(0)));
  }
  return {};
}

Cost NormCost(const CostContext& c) {
  return {.op_class = OpClass::kNormalize,
          .flops = 8.0 * static_cast<double>(c.input(0).elements())};
}

}  // namespace parallax::ops
