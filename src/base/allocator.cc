#include "base/allocator.h"

#include <sys/mman.h>

#include <cstdlib>

namespace parallax {
namespace {

// The size of a large page on the machines this runs on.
constexpr size_t kLargePage = size_t{2} << 20;

class HeapAllocator final : public Allocator {
 public:
  void* Allocate(size_t bytes) noexcept override {
    if (bytes > static_cast<size_t>(-1) - kAlignment) return nullptr;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded >= kLargePage) return AllocateLarge(rounded);
    return std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  }
  void Free(void* block, size_t) noexcept override { std::free(block); }

 private:
  // Weights and activations are walked from end to end at every run, and with pages of 4 KB the
  // look-ups of addresses cost some percent of a product that waits for memory. Only whole large
  // pages of the block are asked for, so that it takes no more memory; a refusal changes nothing.
  static void* AllocateLarge(size_t bytes) noexcept {
    void* block = nullptr;  // unlike aligned_alloc this takes any size
    if (posix_memalign(&block, kLargePage, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
    (void)madvise(block, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
    return block;
  }
};

}  // namespace

Allocator& SystemAllocator() {
  // Never destroyed: tensors of static lifetime give their memory back after any destructor here.
  static HeapAllocator* const heap = new HeapAllocator;
  return *heap;
}

}  // namespace parallax
