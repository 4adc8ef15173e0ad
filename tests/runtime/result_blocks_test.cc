#include "runtime/result_blocks.h"

#include <cstdlib>
#include <map>
#include <thread>

#include <gtest/gtest.h>

namespace parallax::runtime {
namespace {

// Counts what is out, and fails on demand.
class CountingAllocator : public Allocator {
 public:
  void* Allocate(size_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    if (full) return nullptr;
    ++allocations;
    void* p = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    out_[p] = bytes;
    return p;
  }
  void Free(void* block, size_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(out_.at(block), bytes);
    out_.erase(block);
    std::free(block);
  }
  size_t out() const {
    std::lock_guard lock(mutex_);
    return out_.size();
  }
  int allocations = 0;
  bool full = false;

 private:
  mutable std::mutex mutex_;
  std::map<void*, size_t> out_;
};

constexpr int64_t kLarge = 1 << 18;

Tensor Made(ResultBlocks& blocks, int64_t elements) {
  Result<Tensor> t = blocks.Make(DType::kF32, Shape{elements});
  EXPECT_TRUE(t.ok());
  return t.ok() ? std::move(*t) : Tensor();
}

TEST(ResultBlocks, ReusesWhatNobodyHolds) {
  CountingAllocator allocator;
  auto blocks = std::make_shared<ResultBlocks>(allocator);
  Tensor first = Made(*blocks, kLarge);
  const std::byte* data = first.bytes_begin();
  Tensor other = Made(*blocks, kLarge);
  EXPECT_NE(other.bytes_begin(), data);
  const Tensor copy = first.WithShape(Shape{2, kLarge / 2});
  first = Tensor();
  EXPECT_EQ(blocks->kept_bytes(), 0u) << "the copy still holds it";
  EXPECT_NE(Made(*blocks, kLarge).bytes_begin(), data);
}

TEST(ResultBlocks, TakesTheSameBlockAgain) {
  CountingAllocator allocator;
  auto blocks = std::make_shared<ResultBlocks>(allocator);
  for (int run = 0; run < 5; ++run) {
    const Tensor a = Made(*blocks, kLarge), b = Made(*blocks, 2 * kLarge);
    blocks->EndRun();
  }
  EXPECT_EQ(allocator.allocations, 2);
}

TEST(ResultBlocks, KeepsNothingThatTwoRunsDidNotUse) {
  CountingAllocator allocator;
  auto blocks = std::make_shared<ResultBlocks>(allocator);
  { const Tensor large = Made(*blocks, kLarge); }
  EXPECT_EQ(blocks->kept_bytes(), static_cast<size_t>(kLarge) * 4);
  blocks->EndRun();  // of the run that made it
  EXPECT_EQ(allocator.out(), 1u);
  { const Tensor small = Made(*blocks, kLarge / 2); }
  blocks->EndRun();
  EXPECT_EQ(allocator.out(), 1u) << "the small one alone";
  EXPECT_EQ(blocks->kept_bytes(), static_cast<size_t>(kLarge) * 2);
}

TEST(ResultBlocks, ResultsOutliveTheSession) {
  CountingAllocator allocator;
  auto blocks = std::make_shared<ResultBlocks>(allocator);
  Tensor held = Made(*blocks, kLarge);
  { const Tensor dropped = Made(*blocks, kLarge); }
  blocks->Close();
  EXPECT_EQ(allocator.out(), 1u);
  blocks.reset();
  held.mutable_data<float>()[kLarge - 1] = 1;
  held = Tensor();
  EXPECT_EQ(allocator.out(), 0u);
}

TEST(ResultBlocks, SmallOnesAndFailures) {
  CountingAllocator allocator;
  auto blocks = std::make_shared<ResultBlocks>(allocator);
  { const Tensor small = Made(*blocks, 16); }
  EXPECT_EQ(allocator.out(), 0u);
  { const Tensor empty = Made(*blocks, 0); }
  allocator.full = true;
  const Result<Tensor> none = blocks->Make(DType::kF32, Shape{kLarge});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::kOutOfMemory);
}

TEST(ResultBlocks, DroppedOnAnotherThread) {
  CountingAllocator allocator;
  auto blocks = std::make_shared<ResultBlocks>(allocator);
  for (int run = 0; run < 200; ++run) {
    Tensor t = Made(*blocks, kLarge / 8);
    t.mutable_data<float>()[0] = static_cast<float>(run);
    std::thread reader([result = std::move(t), run]() mutable {
      EXPECT_EQ(result.data<float>()[0], static_cast<float>(run));
      result = Tensor();
    });
    blocks->EndRun();
    if (run % 3 > 0) {
      reader.join();
    } else {
      Tensor meanwhile = Made(*blocks, kLarge / 8);
      meanwhile.mutable_data<float>()[0] = -1;
      reader.join();
    }
  }
  blocks->Close();
  EXPECT_EQ(allocator.out(), 0u);
}

}  // namespace
}  // namespace parallax::runtime
