// Reshape: the same elements under another shape. Opset 5+: the shape is an input; 0 keeps the
// input's extent (with allowzero = 1, opset 14, it means 0), one -1 is computed. A view.
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

// Extents of the result; `target` holds -1 for the one to compute, 0 as said above.
Result<Dims> Resolve(InferContext& c, const std::vector<Dim>& target, int computed) {
  const bool allow_zero = c.Int("allowzero", 0) != 0;
  Dims out(target);
  for (size_t i = 0; i < out.size(); ++i) {
    if (allow_zero || static_cast<int>(i) == computed || !(out[i] == Dim(0))) continue;
    if (c.rank(0) < 0) {
      out[i] = Dim();
    } else if (i >= c.dims(0).size()) {
      return Invalid("shape keeps extent {} of an input of rank {}", i, c.rank(0));
    } else {
      out[i] = c.dims(0)[i];
    }
  }
  if (c.rank(0) < 0) return out;
  PX_ASSIGN_OR_RETURN(Dim total, ProductOf(c.dims(0), 0, c.dims(0).size()));
  if (computed < 0) {
    PX_ASSIGN_OR_RETURN(Dim product, ProductOf(out, 0, out.size()));
    if (total.known() && product.known() && total.extent != product.extent) {
      return Invalid("cannot reshape {} ({} elements) to {} ({})", DimsToString(c.dims(0)),
                     total.extent, DimsToString(out), product.extent);
    }
    return out;
  }
  // Symbols that appear on both sides cancel: [batch, 8, 64] to [batch, -1] gives 512.
  Dims in = c.dims(0);
  Dim rest(1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (static_cast<int>(i) == computed) continue;
    bool cancelled = false;
    for (Dim& d : in) {
      if (!out[i].known() && d == out[i]) {
        d = Dim(1);
        cancelled = true;
        break;
      }
    }
    if (!cancelled) {
      PX_ASSIGN_OR_RETURN(rest, MulDims(rest, out[i]));
    }
  }
  PX_ASSIGN_OR_RETURN(Dim left, ProductOf(in, 0, in.size()));
  Dim& result = out[static_cast<size_t>(computed)];
  result = Dim();
  if (left.known() && rest.known()) {
    if (rest.extent == 0 ? left.extent != 0 : left.extent % rest.extent != 0) {
      return Invalid("cannot reshape {} to a shape whose known extents multiply to {}",
                     DimsToString(c.dims(0)), rest.extent);
    }
    result = Dim(rest.extent == 0 ? 0 : left.extent / rest.extent);
  } else if (rest == Dim(1)) {
    result = left;
  }
  return out;
}

Result<void> Infer(InferContext& c) {
  Dims target;
  int computed = -1;
  if (std::optional<std::vector<int64_t>> shape = c.ConstantInts(1)) {
    for (size_t i = 0; i < shape->size(); ++i) {
      const int64_t v = (*shape)[i];
      if (v < -1) return Invalid("shape has the extent {}", v);
      if (v == -1) {
        if (computed >= 0) return Invalid("shape has more than one -1");
        computed = static_cast<int>(i);
      }
      target.emplace_back(v == -1 ? 0 : v);
    }
  } else if (std::optional<Dims> dims = c.DimValues(1)) {
    target = *dims;
  } else {
    const std::optional<Shape> length = c.type(1).shape();
    if (!length || length->rank() != 1 || (*length)[0] > kMaxRank) return {};
    return c.SetUnknownDims(0, static_cast<int>((*length)[0]));
  }
  PX_ASSIGN_OR_RETURN(Dims out, Resolve(c, target, computed));
  if (std::optional<Dims> values = c.DimValues(0); values && out.size() <= 1) {
    c.SetDimValues(0, *values);
  }
  return c.SetDims(0, std::move(out));
}

}  // namespace

OpDef op_reshape() {
  OpDef def;
  def.name = "Reshape";
  def.inputs = {{"data", kAll, 'T'}, Steers({"shape", kI64s})};
  def.outputs = {{"reshaped", kAll, 'T'}};
  def.attributes = {{.name = "allowzero", .since = 14}};
  def.aliases = {{.kind = AliasKind::kView}};
  def.infer = Infer;
  def.bind = BindView;
  return def;
}

}  // namespace parallax::ops
