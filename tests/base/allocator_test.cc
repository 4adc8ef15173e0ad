#include "base/allocator.h"

#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

namespace parallax {
namespace {

// Around the size of a large page, and 3211264 bytes, no multiple of it: what aligned_alloc may
// refuse, and refuses where an address sanitizer stands behind it.
TEST(SystemAllocator, AnySize) {
  constexpr size_t kPage = size_t{2} << 20;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, kPage - 1, kPage,
                             kPage + 1, size_t{3211264}, 4 * kPage + 12345}) {
    void* block = SystemAllocator().Allocate(bytes);
    ASSERT_TRUE(block != nullptr || bytes == 0) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0u) << bytes;
    if (bytes > 0) std::memset(block, 1, bytes);
    SystemAllocator().Free(block, bytes);
  }
}

TEST(SystemAllocator, TooMuchIsNull) {
  for (const size_t bytes : {static_cast<size_t>(-1), static_cast<size_t>(-1) / 2}) {
    void* block = SystemAllocator().Allocate(bytes);
    EXPECT_EQ(block, nullptr);
    SystemAllocator().Free(block, bytes);
  }
}

}  // namespace
}  // namespace parallax
