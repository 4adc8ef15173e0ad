// InferContext: what an operator's infer function sees and sets.
//
// Role:       shape inference, at import (symbolic) and when a session meets concrete shapes.
// Ownership:  borrows node, types and constants from the inference pass for the call.
// Threads:    used by one thread.
// Invariants: the schema check has passed: arities, element types and attribute types are right,
//             and the outputs' element types are set where the schema ties them. Values are seen
//             only of inputs that the schema says steer (Param::steers); while one of them is not
//             known the driver takes nothing for final, even where every output has a shape.
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

// The most elements an input that steers inference may have: shapes and axes have a dozen, the
// sizes of a Split as many as it has outputs.
inline constexpr int64_t kMaxSteeringValues = int64_t{1} << 20;

// Runs inference over a body: its inputs (captures excluded: the driver knows them) have these
// types; gives the types of its outputs.
class BodyInference {
 public:
  virtual ~BodyInference() = default;
  virtual Result<std::vector<TensorType>> Infer(std::string_view attribute,
                                                std::span<const TensorType> inputs) = 0;
  // What the node's last inference in this pass wrote here; empty at first. A loop inside a loop is
  // inferred once in every round of the outer one, each time with types that say less than before:
  // it goes on from where it stood, or the rounds of nested loops would multiply.
  virtual std::vector<TensorType>& memory() = 0;
};

class InferContext : public NodeContext {
 public:
  struct Input {
    const TensorType* type = nullptr;  // null: left out
    const Tensor* constant = nullptr;  // its value, if known already
    const Dims* dim_values = nullptr;  // an integer vector or scalar known as dimensions
  };

  InferContext(const Node& node, std::span<const Input> inputs, std::span<TensorType> outputs,
               std::span<std::optional<Dims>> output_values, BodyInference* bodies,
               uint64_t steering)
      : NodeContext(node),
        inputs_(inputs),
        steering_(steering),
        outputs_(outputs),
        output_values_(output_values),
        bodies_(bodies) {}

  const TensorType& type(int i) const { return *inputs_[static_cast<size_t>(i)].type; }
  DType dtype(int i) const { return type(i).dtype; }
  int rank(int i) const { return type(i).rank(); }
  const Dims& dims(int i) const { return type(i).dims; }
  // The value of a steering input, or null when not known yet.
  const Tensor* constant(int i) const { return steers(i) ? any_constant(i) : nullptr; }
  // Its integers (i32 or i64...), or nothing when not known yet.
  std::optional<std::vector<int64_t>> ConstantInts(int i) const;
  // The elements of an integer vector (or scalar) input as far as known: each may be a symbol.
  // Constants answer too. Nothing when not even their number is known. Of inputs that do not
  // steer this serves SetDimValues only.
  std::optional<Dims> DimValues(int i) const;
  // The integers of any constant input, for SetDimValues only: no type may depend on them.
  std::optional<std::vector<int64_t>> HintInts(int i) const;

  // Sets the shape of output i; false sizes are impossible here: extents come from checked sums
  // and products (see dims.h). Left-out outputs are ignored.
  Result<void> SetDims(int i, Dims dims);
  Result<void> SetType(int i, TensorType type);
  void SetDType(int i, DType dtype);
  Result<void> SetSameAsInput(int i, int input);
  // Output i has `rank` dimensions, none known.
  Result<void> SetUnknownDims(int i, int rank);
  // Says that the elements of output i are these dimensions. The driver drops what does not fit an
  // int32 or int64 vector or scalar of that many elements, so infer need not ask.
  void SetDimValues(int i, Dims values);

  Result<std::vector<TensorType>> InferBody(std::string_view attribute,
                                            std::span<const TensorType> inputs) {
    return bodies_->Infer(attribute, inputs);
  }
  // See BodyInference::memory.
  std::vector<TensorType>& body_memory() { return bodies_->memory(); }

 private:
  bool steers(int i) const { return i < 64 && (steering_ >> i & 1) != 0; }
  const Tensor* any_constant(int i) const {
    return has_input(i) ? inputs_[static_cast<size_t>(i)].constant : nullptr;
  }

  std::span<const Input> inputs_;
  uint64_t steering_;  // bit i: the schema says that input i steers
  std::span<TensorType> outputs_;
  std::span<std::optional<Dims>> output_values_;
  BodyInference* bodies_;
};

}  // namespace parallax::ops
