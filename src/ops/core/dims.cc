#include "ops/core/dims.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/core/node_context.h"

namespace parallax::ops {

Result<Dim> AddDims(const Dim& a, const Dim& b) {
  if (a == Dim(0)) return b;
  if (b == Dim(0)) return a;
  if (!a.known() || !b.known()) return Dim();
  std::optional<int64_t> sum = CheckedAdd(a.extent, b.extent);
  if (!sum) return Invalid("extent {} + {} overflows", a.extent, b.extent);
  return Dim(*sum);
}

Result<Dim> MulDims(const Dim& a, const Dim& b) {
  if (a == Dim(0) || b == Dim(0)) return Dim(0);
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  if (!a.known() || !b.known()) return Dim();
  std::optional<int64_t> product = CheckedMul(a.extent, b.extent);
  if (!product) return Invalid("extent {} x {} overflows", a.extent, b.extent);
  return Dim(*product);
}

Result<Dim> BroadcastDim(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  if (a.known() && b.known())
    return Invalid("extents {} and {} do not broadcast", a.extent, b.extent);
  if (a.known()) return a;
  if (b.known()) return b;
  return Dim();
}

Result<Dims> BroadcastDimsOf(const Dims& a, const Dims& b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {  // i counts from the right
    const Dim da = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim db = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    Result<Dim> d = BroadcastDim(da, db);
    if (!d.ok()) {
      return Invalid("shapes {} and {} do not broadcast", DimsToString(a), DimsToString(b));
    }
    out[rank - 1 - i] = *d;
  }
  return out;
}

Result<Dim> MergeDim(const Dim& a, const Dim& b, std::string_view what) {
  if (a.known() && b.known() && a.extent != b.extent) {
    return Invalid("{}: {} and {} should be equal", what, a.extent, b.extent);
  }
  if (a.known()) return a;
  if (b.known()) return b;
  return a.symbol != 0 ? a : b;
}

Result<Dim> ProductOf(const Dims& dims, size_t begin, size_t end) {
  Dim product(1);
  for (size_t i = begin; i < end; ++i) {
    PX_ASSIGN_OR_RETURN(product, MulDims(product, dims[i]));
  }
  return product;
}

std::string DimsToString(const Dims& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) s += ',';
    s += dims[i].known() ? fmt::format("{}", dims[i].extent) : "?";
  }
  return s + ']';
}

}  // namespace parallax::ops
