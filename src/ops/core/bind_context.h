// BindContext: what an operator's bind function sees; CostContext: the same shapes, for estimates.
//
// Role:       chooses and prepares a kernel when every shape is known.
// Ownership:  borrows node, shapes and constants for the call; packed constants are shared with
//             every other binding of the session that asks for the same packing.
// Threads:    used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/subnormals.h"
#include "ops/core/kernel.h"
#include "ops/core/node_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Shape and type of one input or output; dtype kUndefined marks one that is left out.
struct TensorInfo {
  DType dtype = DType::kUndefined;
  Shape shape;
  const Tensor* constant = nullptr;  // inputs only
};

class ShapedContext : public NodeContext {
 public:
  ShapedContext(const Node& node, std::span<const TensorInfo> inputs,
                std::span<const TensorInfo> outputs)
      : NodeContext(node), inputs_(inputs), outputs_(outputs) {}

  const Shape& input(int i) const { return inputs_[static_cast<size_t>(i)].shape; }
  const Shape& output(int i) const { return outputs_[static_cast<size_t>(i)].shape; }
  DType input_type(int i) const { return inputs_[static_cast<size_t>(i)].dtype; }
  DType output_type(int i) const { return outputs_[static_cast<size_t>(i)].dtype; }
  const Tensor* constant(int i) const {
    return has_input(i) ? inputs_[static_cast<size_t>(i)].constant : nullptr;
  }

 private:
  std::span<const TensorInfo> inputs_;
  std::span<const TensorInfo> outputs_;
};

class CostContext : public ShapedContext {
 public:
  using ShapedContext::ShapedContext;
};

// Constants in a layout a kernel wants, kept by the session: one copy however many plans use it.
class PackCache {
 public:
  virtual ~PackCache() = default;
  // The packing `layout` of `source`, made by `pack` into `bytes` fresh bytes the first time.
  virtual Result<std::shared_ptr<const void>> Get(
      const Tensor& source, std::string_view layout, size_t bytes,
      const std::function<void(const Tensor& source, void* packed)>& pack) = 0;
};

class BindContext : public ShapedContext {
 public:
  BindContext(const Node& node, std::span<const TensorInfo> inputs,
              std::span<const TensorInfo> outputs, int team_size, PackCache* packs,
              bool precise = false)
      : ShapedContext(node, inputs, outputs),
        team_size_(team_size),
        packs_(packs),
        precise_(precise) {}

  // Threads that may run the kernel: size per-worker workspace by it, never the results.
  int team_size() const { return team_size_; }
  // Kernels may not change what is multiplied and added for speed (Winograd, subnormal weights).
  bool precise() const { return precise_; }
  // REQUIRES: constant(i) is not null. `source` may be misaligned: pack with byte copies. `layout`
  // names everything the packed form depends on. The kernel must not read input i: it gets null,
  // so that the original need not be kept in memory. Unless precise(), subnormal f32 become zeros.
  Result<std::shared_ptr<const void>> Pack(
      int i, std::string_view layout, size_t bytes,
      const std::function<void(const Tensor& source, void* packed)>& pack) {
    packed_ |= uint64_t{1} << i;
    if (precise_ || constant(i)->dtype() != DType::kF32) {
      return packs_->Get(*constant(i), layout, bytes, pack);
    }
    return packs_->Get(*constant(i), layout, bytes, [&](const Tensor& source, void* packed) {
      pack(source, packed);
      kernels::FlushSubnormals(static_cast<float*>(packed), static_cast<int64_t>(bytes / 4));
    });
  }
  bool packed(int i) const { return i < 64 && (packed_ >> i & 1) != 0; }

 private:
  int team_size_;
  PackCache* packs_;
  bool precise_;
  uint64_t packed_ = 0;  // bit i: Pack(i) was called
};

// Binds the node by its operator. Where a kernel only fills outputs that have no elements, the
// result does nothing: rows of no columns may be more than any loop ends over.
Result<std::unique_ptr<Kernel>> BindNode(const OpDef& def, BindContext& context);

}  // namespace parallax::ops
