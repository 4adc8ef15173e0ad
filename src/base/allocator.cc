#include "base/allocator.h"

#include <cstdlib>

namespace parallax {
namespace {

class HeapAllocator final : public Allocator {
 public:
  void* Allocate(size_t bytes) noexcept override {
    if (bytes > static_cast<size_t>(-1) - kAlignment) return nullptr;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  }
  void Free(void* block, size_t) noexcept override { std::free(block); }
};

}  // namespace

Allocator& SystemAllocator() {
  // Never destroyed: tensors of static lifetime give their memory back after any destructor here.
  static HeapAllocator* const heap = new HeapAllocator;
  return *heap;
}

}  // namespace parallax
