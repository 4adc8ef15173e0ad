// PrefixIndex::bytes() against every allocation of the program: operator new counts here.
// (The sanitizers bring their own; the test is skipped there.)
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <numeric>
#include <random>
#include <vector>

#include "router/prefix_index.h"

namespace {

// hidden-global ok: operator new has nowhere else to count
std::atomic<int64_t> g_bytes{0};  // hidden-global ok: operator new has nowhere else to count

// The size is kept in front of the block: delete is not always told.
constexpr size_t kFront = 16;

void* Allocate(size_t size) {
  void* block = std::malloc(size + kFront);
  if (block == nullptr) std::abort();
  *static_cast<size_t*>(block) = size;
  g_bytes += parallax::router::AllocatedBytes(size);
  return static_cast<char*>(block) + kFront;
}

void Free(void* at) {
  if (at == nullptr) return;
  void* block = static_cast<char*>(at) - kFront;
  g_bytes -= parallax::router::AllocatedBytes(*static_cast<size_t*>(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* at) noexcept { Free(at); }
void operator delete[](void* at) noexcept { Free(at); }
void operator delete(void* at, size_t) noexcept { Free(at); }
void operator delete[](void* at, size_t) noexcept { Free(at); }

namespace parallax::router {
namespace {

TEST(PrefixIndexBytes, GranuleIsTheLibrarys) {
  for (size_t size : {1u, 24u, 25u, 40u, 41u, 100u, 1000u, 4097u}) {
    void* block = std::malloc(size);
    // A free block that is a little larger may be given whole.
    const auto taken = static_cast<int64_t>(malloc_usable_size(block) + 8);
    EXPECT_GE(taken, AllocatedBytes(size)) << size;
    EXPECT_LE(taken, AllocatedBytes(size) + 16) << size;
    std::free(block);
  }
}

TEST(PrefixIndexBytes, AreExact) {
  std::mt19937 random(1);
  const auto sequence = [&](Symbol first, size_t count) {
    std::vector<Symbol> s(count);
    std::iota(s.begin(), s.end(), first * 100'000);
    return s;
  };
  std::vector<std::vector<Symbol>> sequences;
  for (Symbol i = 0; i < 4000; ++i) {
    std::vector<Symbol> s = sequence(1 + i % 7, 20 + random() % 200);
    const std::vector<Symbol> rest = sequence(10 + i % 900, 1 + random() % 300);
    s.insert(s.end(), rest.begin(), rest.end());
    sequences.push_back(std::move(s));
  }
  const int64_t before = g_bytes;
  PrefixIndex index({.byte_cap = 600 << 10});
  index.AddBackend(0, {});
  index.AddBackend(1, {.max_sequences = 16});
  index.AddBackend(2, {.llama_slots = 4});
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto backend = static_cast<BackendId>(i % 3);
    index.Insert(backend, sequences[i], sequences[i].size());
    if (i == 3000) index.Clear(1);
    ASSERT_EQ(index.bytes(), g_bytes - before) << i;
    ASSERT_LE(index.bytes(), 600 << 10);
  }
  EXPECT_GT(index.bytes(), 500 << 10);
  EXPECT_EQ(index.Gauges(0).bytes + index.Gauges(1).bytes + index.Gauges(2).bytes, index.bytes());
  index.RemoveBackend(0);
  EXPECT_EQ(index.bytes(), g_bytes - before);
  index.RemoveBackend(1);
  EXPECT_EQ(index.bytes(), g_bytes - before);
  index.RemoveBackend(2);
  EXPECT_EQ(g_bytes, before);
}

}  // namespace
}  // namespace parallax::router

#endif
