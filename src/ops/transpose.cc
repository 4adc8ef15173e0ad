// Transpose: output axis k is input axis perm[k]; reversed axes by default. Since opset 1.
#include <algorithm>

#include <fmt/format.h>

#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

std::vector<int64_t> Permutation(const NodeContext& c, int rank) {
  if (const std::vector<int64_t>* perm = c.Ints("perm")) return *perm;
  std::vector<int64_t> reversed;
  for (int i = rank; i-- > 0;) reversed.push_back(i);
  return reversed;
}

Result<void> Infer(InferContext& c) {
  if (c.rank(0) < 0) {
    const std::vector<int64_t>* perm = c.Ints("perm");
    if (perm == nullptr) return {};
    return c.SetUnknownDims(0, static_cast<int>(std::min<size_t>(perm->size(), kMaxRank)));
  }
  const std::vector<int64_t> perm = Permutation(c, c.rank(0));
  Dims out;
  std::vector<bool> seen(c.dims(0).size(), false);
  for (int64_t p : perm) {
    if (p < 0 || p >= c.rank(0) || seen[static_cast<size_t>(p)]) break;
    seen[static_cast<size_t>(p)] = true;
    out.push_back(c.dims(0)[static_cast<size_t>(p)]);
  }
  if (out.size() != c.dims(0).size() || perm.size() != out.size()) {
    return Invalid("perm [{}] is not a permutation of {} axes", fmt::join(perm, ","), c.rank(0));
  }
  return c.SetDims(0, std::move(out));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const std::vector<int64_t> perm = Permutation(c, c.input(0).rank());
  return BindStridedCopy(c, "transpose", kernels::TransposePlan(c.input(0), perm));
}

}  // namespace

OpDef op_transpose() {
  OpDef def;
  def.name = "Transpose";
  def.inputs = {{"data", kAll, 'T'}};
  def.outputs = {{"transposed", kAll, 'T'}};
  def.attributes = {{.name = "perm", .type = AttributeType::kInts}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
