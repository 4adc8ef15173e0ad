#include "runtime/result_blocks.h"

#include <algorithm>
#include <utility>

namespace parallax::runtime {
namespace {

// Smaller blocks the allocator gives back as quickly.
constexpr size_t kMinBytes = 64 << 10;

}  // namespace

Result<Tensor> ResultBlocks::Make(DType dtype, const Shape& shape) {
  const size_t bytes = static_cast<size_t>(shape.elements()) * SizeOf(dtype);
  if (bytes < kMinBytes) return Tensor::Allocate(dtype, shape, allocator_);
  void* data = Take(bytes);
  if (data == nullptr) {
    return MakeError(ErrorCode::kOutOfMemory, "cannot allocate {} bytes for a tensor {}{}", bytes,
                     Name(dtype), shape.ToString());
  }
  return Tensor::Wrap(
      dtype, shape, data,
      std::shared_ptr<const void>(data, [self = shared_from_this(), bytes](const void* p) {
        self->Return(const_cast<void*>(p), bytes);
      }));
}

void* ResultBlocks::Take(size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    for (Block& b : kept_) {
      if (b.bytes != bytes) continue;
      void* data = b.data;
      b = kept_.back();
      kept_.pop_back();
      return data;
    }
  }
  return allocator_.Allocate(bytes);
}

void ResultBlocks::Return(void* data, size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (!closed_) {
      kept_.push_back({data, bytes, false});
      return;
    }
  }
  allocator_.Free(data, bytes);
}

void ResultBlocks::EndRun() {
  std::vector<Block> dropped;
  {
    std::lock_guard lock(mutex_);
    const auto idle =
        std::partition(kept_.begin(), kept_.end(), [](const Block& b) { return !b.idle; });
    dropped.assign(idle, kept_.end());
    kept_.erase(idle, kept_.end());
    for (Block& b : kept_) b.idle = true;
  }
  for (const Block& b : dropped) allocator_.Free(b.data, b.bytes);
}

void ResultBlocks::Close() {
  std::vector<Block> dropped;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    dropped = std::exchange(kept_, {});
  }
  for (const Block& b : dropped) allocator_.Free(b.data, b.bytes);
}

size_t ResultBlocks::kept_bytes() const {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const Block& b : kept_) sum += b.bytes;
  return sum;
}

}  // namespace parallax::runtime
