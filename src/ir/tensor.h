// Tensor: an element type, a shape and a block of bytes in row-major order.
//
// Role:       constants of a graph, attribute values, inputs and outputs of a run.
// Ownership:  shares its block through a reference count; copies are cheap and see the same bytes.
//             A borrowed tensor refers to memory its creator keeps alive.
// Threads:    reading is safe from any thread; writing needs the only reference.
// Invariants: the block holds at least bytes() bytes. Blocks of Allocate are aligned to kAlignment;
//             a tensor that maps a model file may start at any byte: see aligned().
// Example:
//   PX_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(DType::kF32, Shape{2, 3}));
//   std::fill_n(t.mutable_data<float>(), t.elements(), 1.0f);
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "base/allocator.h"
#include "base/dtype.h"
#include "base/result.h"
#include "base/shape.h"

namespace parallax {

class Tensor {
 public:
  Tensor() = default;  // undefined: dtype kUndefined, no bytes

  // Fresh memory, not initialised. Error: kOutOfMemory, naming the byte count.
  static Result<Tensor> Allocate(DType dtype, const Shape& shape,
                                 Allocator& allocator = SystemAllocator());
  // Refers to `data`, kept alive by `owner` (null: the caller promises).
  static Tensor Wrap(DType dtype, const Shape& shape, const void* data,
                     std::shared_ptr<const void> owner = nullptr);
  // The same for bytes of a file that the system maps read-only, which DropPages may give back.
  static Tensor Map(DType dtype, const Shape& shape, const void* data,
                    std::shared_ptr<const void> owner);
  // A copy of `values` with that shape; for tests and small constants.
  template <class T>
  static Result<Tensor> From(const Shape& shape, std::span<const T> values) {
    assert(static_cast<int64_t>(values.size()) == shape.elements());
    PX_ASSIGN_OR_RETURN(Tensor t, Allocate(kDTypeOf<T>, shape));
    T* p = t.mutable_data<T>();
    for (size_t i = 0; i < values.size(); ++i) p[i] = values[i];
    return t;
  }

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * SizeOf(dtype_); }

  const std::byte* bytes_begin() const { return data_; }
  // Whether the first byte is aligned for the element type.
  bool aligned() const { return reinterpret_cast<uintptr_t>(data_) % SizeOf(dtype_) == 0; }
  // This tensor when aligned, else a copy that is.
  Result<Tensor> Aligned(Allocator& allocator = SystemAllocator()) const;

  // The same contents in fresh memory.
  Result<Tensor> Copy(Allocator& allocator = SystemAllocator()) const;

  // REQUIRES: T is the C++ type of dtype(), aligned().
  template <class T>
  const T* data() const {
    assert(kDTypeOf<T> == dtype_ && (elements() == 0 || aligned()));
    return reinterpret_cast<const T*>(data_);
  }
  // REQUIRES besides: memory of Allocate that no other Tensor refers to.
  template <class T>
  T* mutable_data() {
    return const_cast<T*>(data<T>());
  }
  std::byte* mutable_bytes() { return const_cast<std::byte*>(data_); }

  // The same bytes under another shape. REQUIRES: equal element counts.
  Tensor WithShape(const Shape& shape) const {
    assert(shape.elements() == elements());
    Tensor t = *this;
    t.shape_ = shape;
    return t;
  }
  // Tells the system that the pages that hold only bytes of this tensor are not needed for now:
  // they leave memory, and are read from the file again when touched. Nothing for other memory.
  void DropPages() const;
  // How many tensors share the block; 0 for borrowed memory.
  long use_count() const { return owner_.use_count(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  bool mapped_ = false;
};

// The values of an integer tensor (any integer type or bool) widened to int64; nothing for other
// types or for more than `limit` elements.
bool ReadInts(const Tensor& tensor, int64_t limit, std::vector<int64_t>* values);

}  // namespace parallax
