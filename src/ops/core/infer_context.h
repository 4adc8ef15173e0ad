// InferContext: what an operator's infer function sees and sets.
//
// Role:       shape inference, at import (symbolic) and when a session meets concrete shapes.
// Ownership:  borrows node, types and constants from the inference pass for the call.
// Threads:    used by one thread.
// Invariants: the schema check has passed: arities, element types and attribute types are right,
//             and the outputs' element types are set where the schema ties them.
// Example:
//   Result<void> Infer(InferContext& c) {          // Transpose without perm
//     if (c.rank(0) < 0) return {};                // nothing known: outputs stay unknown
//     Dims dims(c.dims(0).rbegin(), c.dims(0).rend());
//     return c.SetDims(0, std::move(dims));
//   }
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/core/node_context.h"

namespace parallax::ops {

// Runs inference over a body: its inputs (captures excluded: the driver knows them) have these
// types; gives the types of its outputs.
class BodyInference {
 public:
  virtual ~BodyInference() = default;
  virtual Result<std::vector<TensorType>> Infer(std::string_view attribute,
                                                std::span<const TensorType> inputs) = 0;
};

class InferContext : public NodeContext {
 public:
  struct Input {
    const TensorType* type = nullptr;  // null: left out
    const Tensor* constant = nullptr;  // its value, if known already
    const Dims* dim_values = nullptr;  // an integer vector or scalar known as dimensions
  };

  InferContext(const Node& node, std::span<const Input> inputs, std::span<TensorType> outputs,
               std::span<std::optional<Dims>> output_values, BodyInference* bodies)
      : NodeContext(node),
        inputs_(inputs),
        outputs_(outputs),
        output_values_(output_values),
        bodies_(bodies) {}

  const TensorType& type(int i) const { return *inputs_[static_cast<size_t>(i)].type; }
  DType dtype(int i) const { return type(i).dtype; }
  int rank(int i) const { return type(i).rank(); }
  const Dims& dims(int i) const { return type(i).dims; }
  const Tensor* constant(int i) const {
    return has_input(i) ? inputs_[static_cast<size_t>(i)].constant : nullptr;
  }
  // The integers of a constant input (i32 or i64...), or nothing when not known yet.
  std::optional<std::vector<int64_t>> ConstantInts(int i) const;
  // The elements of an integer vector (or scalar) input as far as known: each may be a symbol.
  // Constants answer too. Nothing when not even their number is known.
  std::optional<Dims> DimValues(int i) const;

  // Sets the shape of output i; false sizes are impossible here: extents come from checked sums
  // and products (see dims.h). Left-out outputs are ignored.
  Result<void> SetDims(int i, Dims dims);
  Result<void> SetType(int i, TensorType type);
  void SetDType(int i, DType dtype);
  Result<void> SetSameAsInput(int i, int input);
  // Output i has `rank` dimensions, none known.
  Result<void> SetUnknownDims(int i, int rank);
  // Says that the elements of output i (an integer vector or scalar) are these dimensions.
  void SetDimValues(int i, Dims values);

  Result<std::vector<TensorType>> InferBody(std::string_view attribute,
                                            std::span<const TensorType> inputs) {
    return bodies_->Infer(attribute, inputs);
  }

 private:
  std::span<const Input> inputs_;
  std::span<TensorType> outputs_;
  std::span<std::optional<Dims>> output_values_;
  BodyInference* bodies_;
};

}  // namespace parallax::ops
