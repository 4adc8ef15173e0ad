#include "ir/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace parallax {

Result<Tensor> Tensor::Allocate(DType dtype, const Shape& shape, Allocator& allocator) {
  const size_t bytes = static_cast<size_t>(shape.elements()) * SizeOf(dtype);
  void* block = allocator.Allocate(bytes);
  if (block == nullptr) {
    return MakeError(ErrorCode::kOutOfMemory, "cannot allocate {} bytes for a tensor {}{}", bytes,
                     Name(dtype), shape.ToString());
  }
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.data_ = static_cast<const std::byte*>(block);
  t.owner_ = std::shared_ptr<const void>(
      block, [&allocator, bytes](const void* p) { allocator.Free(const_cast<void*>(p), bytes); });
  return t;
}

Tensor Tensor::Wrap(DType dtype, const Shape& shape, const void* data,
                    std::shared_ptr<const void> owner) {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.data_ = static_cast<const std::byte*>(data);
  t.owner_ = std::move(owner);
  return t;
}

Tensor Tensor::Map(DType dtype, const Shape& shape, const void* data,
                   std::shared_ptr<const void> owner) {
  Tensor t = Wrap(dtype, shape, data, std::move(owner));
  t.mapped_ = true;
  return t;
}

void Tensor::DropPages() const {
  if (!mapped_) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(data_) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data_) + bytes()) / page * page;
  if (begin >= end) return;
  // Advice: where it is refused the pages simply stay.
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<Tensor> Tensor::Aligned(Allocator& allocator) const {
  if (aligned()) return *this;
  return Copy(allocator);
}

Result<Tensor> Tensor::Copy(Allocator& allocator) const {
  PX_ASSIGN_OR_RETURN(Tensor copy, Allocate(dtype_, shape_, allocator));
  if (bytes() > 0) std::memcpy(copy.mutable_bytes(), data_, bytes());
  return copy;
}

bool ReadInts(const Tensor& tensor, int64_t limit, std::vector<int64_t>* values) {
  if (!IsInteger(tensor.dtype()) && tensor.dtype() != DType::kBool) return false;
  const int64_t n = tensor.elements();
  if (n > limit) return false;
  values->resize(static_cast<size_t>(n));
  DispatchType(tensor.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < n; ++i) {
      T v;
      std::memcpy(&v, tensor.bytes_begin() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      (*values)[static_cast<size_t>(i)] = static_cast<int64_t>(v);
    }
  });
  return true;
}

}  // namespace parallax
