// Allocator: where tensor memory comes from; the seam at which tests make memory run out.
//
// Role:       every tensor buffer, arena and packed weight is taken here.
// Ownership:  the caller frees what it allocated; an Allocator outlives its blocks.
// Threads:    implementations must be safe to call from any thread.
// Invariants: blocks are aligned to kAlignment; Allocate returns null instead of throwing.
#pragma once

#include <cstddef>

namespace parallax {

// One cache line, and one AVX-512 register.
inline constexpr size_t kAlignment = 64;

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Null when memory ran out. `bytes` may be 0: the result is then null or freeable.
  virtual void* Allocate(size_t bytes) noexcept = 0;
  virtual void Free(void* block, size_t bytes) noexcept = 0;
};

// The process heap.
Allocator& SystemAllocator();

}  // namespace parallax
