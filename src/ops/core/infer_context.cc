#include "ops/core/infer_context.h"

#include <algorithm>

#include "ops/core/dims.h"

namespace parallax::ops {
namespace {

// Vectors of dimensions have about a rank of elements; longer ones are data, not worth following.
constexpr int64_t kMaxDimValues = 4096;

std::optional<std::vector<int64_t>> IntsOf(const Tensor* t, int64_t limit) {
  std::vector<int64_t> values;
  if (t == nullptr || !ReadInts(*t, limit, &values)) return std::nullopt;
  return values;
}

}  // namespace

std::optional<std::vector<int64_t>> InferContext::ConstantInts(int i) const {
  // The driver has refused longer ones: here "nothing" means "not known yet", never "too many".
  return IntsOf(constant(i), kMaxSteeringValues);
}

std::optional<std::vector<int64_t>> InferContext::HintInts(int i) const {
  return IntsOf(any_constant(i), kMaxDimValues);
}

std::optional<Dims> InferContext::DimValues(int i) const {
  if (!has_input(i)) return std::nullopt;
  if (const Dims* known = inputs_[static_cast<size_t>(i)].dim_values) return *known;
  std::optional<std::vector<int64_t>> ints = steers(i) ? ConstantInts(i) : HintInts(i);
  if (!ints) return std::nullopt;
  // A Dim cannot hold a negative number (the -1 of Reshape): such vectors are read as ints.
  if (std::any_of(ints->begin(), ints->end(), [](int64_t v) { return v < 0; })) return std::nullopt;
  return Dims(ints->begin(), ints->end());
}

Result<void> InferContext::SetDims(int i, Dims dims) {
  if (!has_output(i)) return {};
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return Invalid("output {} has rank {}, above the limit of {}", i, dims.size(), kMaxRank);
  }
  TensorType& t = outputs_[static_cast<size_t>(i)];
  t.ranked = true;
  t.dims = std::move(dims);
  return {};
}

Result<void> InferContext::SetType(int i, TensorType type) {
  if (!has_output(i)) return {};
  outputs_[static_cast<size_t>(i)] = std::move(type);
  return {};
}

void InferContext::SetDType(int i, DType dtype) {
  if (has_output(i)) outputs_[static_cast<size_t>(i)].dtype = dtype;
}

Result<void> InferContext::SetSameAsInput(int i, int input) {
  if (rank(input) < 0) return {};
  return SetDims(i, dims(input));
}

Result<void> InferContext::SetUnknownDims(int i, int rank) {
  return SetDims(i, Dims(static_cast<size_t>(rank)));
}

void InferContext::SetDimValues(int i, Dims values) {
  if (has_output(i)) output_values_[static_cast<size_t>(i)] = std::move(values);
}

}  // namespace parallax::ops
