#include "runtime/pack_store.h"

#include <sys/mman.h>

#include <cstdint>

namespace parallax::runtime {
namespace {

// Weights are read from one end to the other at every run, and with pages of 4 KB the look-ups of
// addresses cost some percent of a product that waits for memory. Only whole large pages inside the
// block are asked for: it takes no more memory than before. A refusal changes nothing.
void AskForLargePages(std::byte* block, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
  const auto address = reinterpret_cast<uintptr_t>(block);
  const uintptr_t first = (address + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t last = (address + bytes) / kLargePage * kLargePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace

Result<std::shared_ptr<const void>> PackStore::Get(
    const Tensor& source, std::string_view layout, size_t bytes,
    const std::function<void(const Tensor&, void*)>& pack) {
  const Key key(source.bytes_begin(), fmt::format("{}{}", layout, source.shape().ToString()),
                bytes);
  if (auto it = entries_.find(key); it != entries_.end()) {
    std::shared_ptr<const void> owner = it->second.source.lock();
    std::shared_ptr<const void> packed = it->second.packed.lock();
    if (packed != nullptr && owner != nullptr && owner == source.owner()) return packed;
  }
  PX_ASSIGN_OR_RETURN(Tensor memory,
                      Tensor::Allocate(DType::kU8, Shape{static_cast<int64_t>(bytes)}, allocator_));
  AskForLargePages(memory.mutable_bytes(), bytes);
  pack(source, memory.mutable_bytes());
  source.DropPages();  // whoever reads the original too only reads it from the file again
  entries_[key] = {source.owner(), memory.owner()};
  return memory.owner();
}

size_t PackStore::bytes() const {
  size_t sum = 0;
  for (const auto& [key, entry] : entries_) {
    if (!entry.packed.expired()) sum += std::get<2>(key);
  }
  return sum;
}

}  // namespace parallax::runtime
