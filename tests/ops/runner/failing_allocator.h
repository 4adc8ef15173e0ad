// FailingAllocator: memory that runs out at the N-th allocation.
#pragma once

#include <atomic>

#include "base/allocator.h"

namespace parallax::testing {

class FailingAllocator final : public Allocator {
 public:
  // Allocation number `fail_at` (from 0) and all later ones give null; negative: none does.
  explicit FailingAllocator(int64_t fail_at) : fail_at_(fail_at) {}
  void* Allocate(size_t bytes) noexcept override {
    const int64_t number = count_.fetch_add(1);
    if (fail_at_ >= 0 && number >= fail_at_) return nullptr;
    void* p = SystemAllocator().Allocate(bytes);
    if (p != nullptr) live_.fetch_add(1);
    return p;
  }
  void Free(void* block, size_t bytes) noexcept override {
    if (block != nullptr) live_.fetch_sub(1);
    SystemAllocator().Free(block, bytes);
  }
  int64_t count() const { return count_.load(); }
  int64_t live() const { return live_.load(); }

 private:
  const int64_t fail_at_;
  std::atomic<int64_t> count_{0};
  std::atomic<int64_t> live_{0};
};

}  // namespace parallax::testing
